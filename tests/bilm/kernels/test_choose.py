"""Which kernel is chosen: a pure function of processor, sizes, rows and settings."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.kernels import choose
from spacy_elmo.bilm.kernels.choose import (
    LEAST_WORK,
    TABLE,
    choose_all,
    choose_directions,
    choose_gradients,
    choose_lstm,
    choose_matmul,
    choose_token_encoder,
    choose_training_matmul,
)
from spacy_elmo.bilm.kernels.forced import KERNELS, force
from spacy_elmo.bilm.kernels.matmul import FORMS, Rule
from spacy_elmo.bilm.kernels.processor import (
    INSTRUCTIONS,
    Case,
    Processor,
    instructions,
)

from ...models import SENTENCES, tiny_config

ALL = frozenset(name for name in FORMS if name != "cuda_float16")
PLAIN = Processor("cpu")
FAST = Processor("cpu", "avx512_bf16", ALL)
XEON = Processor("cpu", "avx512_fp16", ALL)
INTEL = Processor("cpu", "amx", ALL)
GPU = Processor("cuda", forms=frozenset({"torch", "cuda_float16"}))
UNCLIPPED = {"cell_clip": None, "proj_clip": None}


def test_instructions_obey_the_variables_of_torch_and_onednn(monkeypatch):
    best = instructions()
    assert set(TABLE) == set(INSTRUCTIONS) and best in TABLE
    for limit, at_most in (
        ("AVX512_CORE_AMX_FP16", "amx"),
        ("AVX512_CORE_BF16", "avx512_bf16"),
        ("AVX512_CORE_VNNI", "avx512_vnni"),
        ("AVX512_CORE", "avx512"),
        ("AVX2_VNNI_2", "avx2"),
        ("DEFAULT", "amx"),
    ):
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
        assert instructions() == min(best, at_most, key=INSTRUCTIONS.index)
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA")
    for capability, expected in (("AVX2", "avx2"), ("DEFAULT", "unknown")):
        found = monkeypatch.setattr
        found(torch.backends.cpu, "get_cpu_capability", lambda c=capability: c)
        assert instructions() == expected


@pytest.mark.parametrize(
    ("processor", "precision"),
    [(PLAIN, "half"), (PLAIN, "int8"), (GPU, "int8"), (FAST, "tf32")],
)
def test_no_form_of_a_precision(processor, precision):
    with pytest.raises(ValueError, match="EL077"):
        choose_matmul(Case(processor, precision))


def test_a_precision_that_is_slower_than_float32_warns(monkeypatch):
    monkeypatch.setattr(choose, "processor_of", lambda _: XEON)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BiLM.random(tiny_config()).set_precision("half")  # in float16
    without = XEON._replace(forms=ALL - {"fbgemm_float16"})
    monkeypatch.setattr(choose, "processor_of", lambda _: without)
    bilm = BiLM.random(tiny_config())
    with pytest.warns(UserWarning, match=r"ELW54.*half.*80 GFLOP/s.*150"):
        bilm.set_precision("half")
    check, cpu = choose.check_training_precision, torch.device("cpu")
    with pytest.warns(UserWarning, match=r"ELW54.*bfloat16"):
        check("bfloat16", cpu)
    monkeypatch.setattr(choose, "processor_of", lambda _: PLAIN)
    check("float32", cpu)
    for precision in ("bfloat16", "tf32"):
        with pytest.raises(ValueError, match=f"EL077.*{precision}"):
            check(precision, cpu)
        check(precision, torch.device("cuda"))


def test_training_multiplies_as_before_its_checkpoint():
    assert choose_training_matmul(FAST) == "onednn"
    assert choose_training_matmul(INTEL) == "torch"  # oneDNN would round to 16 bits
    assert choose_training_matmul(FAST, "torch") == "torch"
    for other in (INTEL, PLAIN, GPU):
        with pytest.warns(UserWarning, match=r"ELW55.*'onednn'.*'torch'"):
            assert choose_training_matmul(other, "onednn") == "torch"


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
    assert choose_lstm(case, tiny_config(**sizes), 2) == expected


@pytest.mark.parametrize(
    ("settings", "processor", "cells", "expected"),
    [
        ({}, FAST, 4096, "one_row"),
        ({}, PLAIN, 64, "one_row"),
        ({"precision": "half"}, FAST, 2048, "one_row"),
        # Here fewer bits are read in less time.
        ({"precision": "half"}, FAST, 8192, "cpu_lstm"),
        ({"precision": "int8"}, FAST, 2048, "cpu_lstm"),
        ({"precision": "int8"}, FAST, 512, "one_row"),
        # A sentence alone must have the bits that it has in a batch.
        ({"exact": True}, FAST, 64, "cpu_lstm"),
        ({"dtype": torch.float64}, FAST, 64, "cpu_lstm"),
        ({"gradient": True}, FAST, 64, "autograd_lstm"),
        ({}, GPU, 64, "cpu_lstm"),
    ],
)
def test_lstm_of_one_row(settings, processor, cells, expected):
    config = tiny_config(hidden_dim=cells, projection_dim=256)
    assert choose_lstm(Case(processor, **settings), config, 1) == expected


def test_token_encoder():
    assert choose_token_encoder(Case(FAST)) == "char_cnn"
    assert choose_token_encoder(Case(GPU)) == "char_cnn"
    assert choose_token_encoder(Case(Processor("meta"))) == "definition"


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
        "lstm": "one_row",
        "matmul": "onednn<128rows|<=4MB,onednn_in_place,torch",
        "directions": "all_threads",
        "sequences": "together",
    }
    parts = ("token_encoder", "lstm", "directions", "sequences")
    assert all(found[part] in KERNELS[part] for part in parts)
    training = choose_all(Case(FAST, gradient=True), tiny_config(), 64, 2)
    assert (training["lstm"], training["matmul"]) == ("autograd_lstm", "onednn")
    table = choose_all(Case(FAST), tiny_config(n_words=3), 1, 1)
    assert table["token_encoder"] == "table"


@pytest.mark.parametrize("gradient", [False, True])
def test_both_directions_on_a_gpu(gradient):
    case, clips = Case(GPU, gradient=gradient), tiny_config()
    assert choose_directions(case, clips, 256, 1) == "one_operator"
    assert choose_directions(case, clips, 257, 1) == "all_threads"
    # cuDNN, which multiplies in float32 and TF32 alone where there is no gradient.
    no_clips = tiny_config(cell_clip=None, proj_clip=None)
    half = choose_directions(case._replace(precision="half"), no_clips, 64, 1)
    assert choose_directions(case, no_clips, 64, 1) == "all_threads"
    assert half == ("all_threads" if gradient else "one_operator")
    with force(lstm="definition"):
        assert choose_directions(case, clips, 64, 1) == "all_threads"


def test_what_has_not_run_on_a_gpu_is_not_chosen_there():
    assert choose_gradients(torch.device("cuda")) == "afterwards"


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
            assert choose_matmul(case) == (Rule("torch"),)
            with ThreadPoolExecutor(1) as pool:
                assert pool.submit(choose_token_encoder, case).result() == "char_cnn"
                assert len(pool.submit(choose_matmul, case).result()) > 1
        assert choose_token_encoder(case) == "char_cnn"
    assert len(choose_matmul(case)) > 1


def test_a_variable_forces_kernels(monkeypatch, tiny):
    expected = tiny.encode(SENTENCES)
    monkeypatch.setenv("SPACY_ELMO_KERNELS", "matmul=torch, lstm=definition")
    assert choose_matmul(Case(FAST)) == (Rule("torch"),)
    assert choose_lstm(Case(FAST), tiny_config(), 2) == "definition"
    for a, b in zip(tiny.encode(SENTENCES), expected):
        assert a == pytest.approx(b, abs=1e-6)
    with pytest.raises(ValueError, match=r"EL150.*torch"):
        choose_matmul(Case(FAST, "int8"))
    monkeypatch.setenv("SPACY_ELMO_KERNELS", "matmul=quick")
    with pytest.raises(ValueError, match=r"EL073.*quick"):
        tiny.encode(SENTENCES)


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
    matmuls = {"matmul", "training_matmul"}
    others = {"token_encoder", "lstm", "directions", "sequences", "gradients"}
    assert set(KERNELS) == {*others, *matmuls}
