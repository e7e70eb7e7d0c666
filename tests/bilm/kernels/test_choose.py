"""Which kernel is chosen: a pure function of processor, sizes, rows and settings."""

import pytest
import torch

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.kernels.choose import (
    KERNELS,
    LEAST_WORK,
    choose_all,
    choose_directions,
    choose_lstm,
    choose_matmul,
    choose_token_encoder,
    force,
)
from spacy_elmo.bilm.kernels.processor import Case, Processor

from ...models import SENTENCES, tiny_config

PLAIN = Processor("cpu")
FAST = Processor("cpu", onednn=True, avx512=True, bfloat16=True, int8=True)
GPU = Processor("cuda", bfloat16=True)
UNCLIPPED = {"cell_clip": None, "proj_clip": None}


@pytest.mark.parametrize(
    ("processor", "settings", "expected"),
    [
        (PLAIN, {}, "torch"),
        (FAST, {}, "onednn"),
        (FAST, {"exact": True}, "onednn"),
        (FAST, {"dtype": torch.float64}, "torch"),
        (FAST, {"precision": "half"}, "onednn_bfloat16"),
        (FAST, {"precision": "int8"}, "onednn_int8"),
        (GPU, {}, "torch"),
        (GPU, {"precision": "half"}, "cuda_float16"),
        (GPU, {"precision": "tf32"}, "torch"),
    ],
)
def test_matmul(processor, settings, expected):
    assert choose_matmul(Case(processor, **settings)) == expected


@pytest.mark.parametrize(
    ("processor", "precision"),
    [(PLAIN, "half"), (PLAIN, "int8"), (GPU, "int8"), (FAST, "tf32")],
)
def test_no_form_of_a_precision(processor, precision):
    with pytest.raises(ValueError, match="EL077"):
        choose_matmul(Case(processor, precision))


@pytest.mark.parametrize(
    ("processor", "gradient", "sizes", "expected"),
    [
        (FAST, False, {}, "cpu_lstm"),
        (FAST, True, {}, "autograd_lstm"),
        (FAST, True, UNCLIPPED, "autograd_lstm"),
        (GPU, False, {}, "cpu_lstm"),
        (GPU, True, {}, "autograd_lstm"),
        (GPU, False, UNCLIPPED, "cudnn_lstm"),
        (GPU, True, UNCLIPPED, "cudnn_lstm"),
        # A projection as wide as the cells is one that torch's LSTM does not see.
        (GPU, True, {**UNCLIPPED, "projection_dim": 12}, "autograd_lstm"),
    ],
)
def test_lstm(processor, gradient, sizes, expected):
    case = Case(processor, gradient=gradient)
    assert choose_lstm(case, tiny_config(**sizes)) == expected


def test_token_encoder():
    assert choose_token_encoder(Case(FAST)) == "char_cnn"
    assert choose_token_encoder(Case(GPU)) == "definition"


@pytest.mark.parametrize(
    ("case", "rows", "n_threads", "expected"),
    [
        (Case(FAST), LEAST_WORK / 100, 2, "two_threads"),
        (Case(FAST), LEAST_WORK / 100 - 1, 2, "one_thread"),
        (Case(FAST), LEAST_WORK, 1, "all_threads"),
        (Case(FAST, gradient=True), LEAST_WORK, 2, "all_threads"),
        (Case(GPU), LEAST_WORK, 2, "all_threads"),
    ],
)
def test_directions(case, rows, n_threads, expected):
    config = tiny_config(hidden_dim=100)
    assert choose_directions(case, config, rows, n_threads) == expected


def test_all_parts_are_told_at_once():
    found = choose_all(Case(FAST), tiny_config(), 1, 1)
    assert found == {
        "token_encoder": "char_cnn",
        "lstm": "cpu_lstm",
        "matmul": "onednn",
        "directions": "all_threads",
    }
    assert all(name in KERNELS[part] for part, name in found.items())
    training = choose_all(Case(FAST, gradient=True), tiny_config(), 64, 2)
    assert (training["lstm"], training["matmul"]) == ("autograd_lstm", "torch")
    table = choose_all(Case(FAST), tiny_config(n_words=3), 1, 1)
    assert table["token_encoder"] == "table"


def test_a_kernel_can_be_forced():
    bilm = BiLM.random(tiny_config(), seed=1)
    expected = bilm.encode(SENTENCES)
    for part, name in [
        ("lstm", "definition"),
        ("lstm", "autograd_lstm"),
        ("token_encoder", "definition"),
        ("matmul", "torch"),
        ("directions", "all_threads"),
    ]:
        bilm.token_cache.clear()
        with force(**{part: name}):
            for a, b in zip(bilm.encode(SENTENCES), expected):
                assert a == pytest.approx(b, abs=1e-6)


def test_forced_kernels_are_those_of_this_thread_and_block():
    case = Case(FAST)
    with force(matmul="torch"):
        with force(token_encoder="definition"):
            assert choose_token_encoder(case) == "definition"
            assert choose_matmul(case) == "torch"
        assert choose_token_encoder(case) == "char_cnn"
    assert choose_matmul(case) == "onednn"


@pytest.mark.parametrize(
    ("kernels", "said"),
    [
        ({"lstm": "quick"}, "'quick'.*cpu_lstm, definition"),
        ({"lstn": "cpu_lstm"}, "'lstn'.*token_encoder, lstm"),
    ],
)
def test_unknown_kernels(kernels, said):
    with pytest.raises(ValueError, match=f"EL073.*{said}"), force(**kernels):
        pass


def test_kernels_that_can_not_run():
    bilm = BiLM.random(tiny_config())
    # The first knows no clips.
    for part, name in (("lstm", "cudnn_lstm"), ("matmul", "cuda_float16")):
        with pytest.raises(ValueError, match=f"EL150.*{name}"), force(**{part: name}):
            bilm.encode(SENTENCES)
    assert set(KERNELS) == {"token_encoder", "lstm", "matmul", "directions"}
