"""The LSTM of one sequence against the definition in float64."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_elmo.bilm.kernels.forced import force
from spacy_elmo.bilm.kernels.matmul import TorchMatmul
from spacy_elmo.bilm.kernels.processor import Settings

from .test_kernels import (
    CLIPS,
    TOLERANCE,
    error,
    lstm,
    lstm_inputs,
    needs,
    outputs_of,
)


@settings(max_examples=30, deadline=None)
@given(
    length=st.integers(1, 40),
    projected=st.booleans(),
    clips=st.sampled_from(CLIPS),
    block=st.sampled_from([1 << 10, 1 << 24]),
    seed=st.integers(0, 99),
)
def test_one_row(length, projected, clips, block, seed):
    """Whatever the blocks that the steps come in; its inputs are left as they were."""
    layer, definition = lstm(projected, clips, seed)
    inputs = lstm_inputs(layer, [length], seed)
    before = copy.deepcopy(inputs)
    with (
        torch.no_grad(),
        force(lstm="one_row"),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(TorchMatmul, "block_bytes", block)
        found = outputs_of(layer, inputs, torch.float32)
    with torch.no_grad():
        expected = outputs_of(definition, inputs, torch.float64)
    for a, b in zip(found, expected):
        assert a.dtype == torch.float32 and error(a, b) < TOLERANCE["float32"]
    assert all((a == b).all() for a, b in zip(inputs[2:], before[2:]))


@pytest.mark.parametrize("precision", ["half", "int8"])
@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("clips", CLIPS)
def test_one_row_in_fewer_bits(precision, projected, clips):
    """By the form of one row, which may be another than that of many."""
    needs(precision)
    layer, definition = lstm(projected, clips, hidden_dim=64, projection_dim=32)
    layer.settings = Settings(precision)
    inputs = lstm_inputs(layer, [20])
    with torch.no_grad():
        expected = outputs_of(definition, inputs, torch.float64)
        with force(lstm="cpu_lstm"):
            found = outputs_of(layer, inputs, torch.float32)
    for a, b in zip(found, expected):
        assert 1e-7 < error(a, b) < TOLERANCE[precision]


@pytest.mark.parametrize("precision", ["half", "int8"])
def test_the_end_of_the_longest_of_a_batch_is_read_as_its_beginning(precision):
    """So that its vectors do not depend on when the others end, but for the last bits
    of float32 where FBGEMM, without AVX-512, sums up a few rows in another order. By
    another form the last bits of `half` would differ."""
    needs(precision)
    layer, _ = lstm(True, (None, None), hidden_dim=64, projection_dim=32)
    layer.settings = Settings(precision)
    x, _, h, c = lstm_inputs(layer, [20])
    found = []
    for n_others in (3, 9):
        batch_sizes = [2] * n_others + [1] * (20 - n_others)
        packed = x.repeat_interleave(torch.tensor(batch_sizes), dim=0)
        with torch.no_grad(), force(lstm="cpu_lstm"):
            y, *_ = layer(packed, batch_sizes, h.repeat(2, 1), c.repeat(2, 1))
        first = torch.tensor(batch_sizes).cumsum(0) - torch.tensor(batch_sizes)
        found.append(y[first])
    assert error(*found) < 1e-6
