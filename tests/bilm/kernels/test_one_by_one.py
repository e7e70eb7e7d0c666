"""Sequences of a small batch, read one after another: where, and what comes out."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_elmo import BiLM
from spacy_elmo.bilm.batch import pack
from spacy_elmo.bilm.kernels.choose import LEAST_WORK, choose_sequences
from spacy_elmo.bilm.kernels.forced import force
from spacy_elmo.bilm.kernels.processor import Case, Processor
from spacy_elmo.bilm.model import BidirectionalLM

from ...models import SENTENCES, tiny_config
from .test_choose import ALL, FAST, GPU
from .test_kernels import TOLERANCE, error

AVX2 = Processor("cpu", "avx2", ALL)


@pytest.mark.parametrize(
    ("case", "rows", "n_threads", "expected"),
    [
        (Case(AVX2), 1, 1, "together"),  # there is but one
        (Case(AVX2), 2, 1, "one_by_one"),
        (Case(AVX2), 3, 1, "one_by_one"),
        (Case(AVX2), 4, 1, "together"),
        (Case(AVX2, "half"), 2, 1, "one_by_one"),
        (Case(AVX2), 3, 2, "together"),  # the directions are shared by two threads
        (Case(FAST), 2, 1, "together"),
        (Case(GPU), 2, 1, "together"),
        (Case(AVX2, exact=True), 2, 1, "together"),
        (Case(AVX2, gradient=True), 2, 1, "together"),
    ],
)
def test_sequences(case, rows, n_threads, expected):
    small = tiny_config(hidden_dim=LEAST_WORK // 3 + 1, projection_dim=128)
    assert choose_sequences(case, small, rows, n_threads) == expected
    original = tiny_config(hidden_dim=4096, projection_dim=512)
    assert choose_sequences(case, original, rows, n_threads) == "together"


@settings(max_examples=20, deadline=None)
@given(lengths=st.lists(st.integers(0, 20), min_size=1, max_size=5))
def test_sequences_one_by_one(lengths):
    """Layers and the last state of each, in the order of the batch."""
    bilm = BiLM.random(tiny_config())
    definition = BidirectionalLM(bilm.config).double()
    definition.load_state_dict(bilm.state_dict())
    batch = pack([[f"{row}a{t}" for t in range(n)] for row, n in enumerate(lengths)])
    vectors = definition.token_encoder(
        torch.from_numpy(bilm.character_ids(batch.words))
    )
    word_N, reversed_N = map(torch.from_numpy, (batch.word_N, batch.reversed_N))
    rows = word_N, word_N[reversed_N], batch.batch_sizes
    parts = iter(torch.randn(4, 2, len(lengths), 12, generator=torch.manual_seed(0)))
    state = bilm.zero_state(len(lengths)).map(
        lambda part: next(parts)[..., : part.shape[-1]]
    )
    with torch.no_grad():
        expected = definition.read(vectors, *rows, state.map(torch.Tensor.double))
        with force(sequences="one_by_one"):
            found = bilm.read(vectors.float(), *rows, state)
    for a, b in zip(flat(found), flat(expected)):
        assert error(a, b) < TOLERANCE["float32"]


def flat(outputs):
    """Return all tensors of lists and tuples of these."""
    if isinstance(outputs, torch.Tensor):
        return [outputs]
    return [tensor for part in outputs for tensor in flat(part)]


def test_gradients_need_all_rows_together():
    bilm = BiLM.random(tiny_config())
    with force(sequences="one_by_one"), pytest.raises(ValueError, match="EL150"):
        bilm(pack(SENTENCES))
