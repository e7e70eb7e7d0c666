"""Which kernel is chosen: a pure function of a case and of sizes."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.kernels import plan
from spacy_elmo.bilm.kernels.kernel import KERNELS, DispatchKey, force
from spacy_elmo.bilm.kernels.plan import (
    LSTM_KERNELS,
    TOKEN_KERNELS,
    check_precision,
    check_training_precision,
    choices,
    choose_gradients,
    choose_lstm,
    choose_token_encoder,
    choose_training_matmul,
)
from spacy_elmo.machine.processor import INSTRUCTIONS, instructions

from ...models import SENTENCES, tiny_config

PLAIN, FAST, GPU = DispatchKey(), DispatchKey(instructions="avx2"), DispatchKey("cuda")
UNCLIPPED = {"cell_clip": None, "proj_clip": None}


def chosen(*facts):
    """Return the kernel of each part."""
    return {part: choose() for part, choose in choices(*facts).items()}


def test_instructions_obey_the_variables_of_torch_and_onednn(monkeypatch):
    best = instructions()
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
    ("case", "precision"), [(PLAIN, "half"), (PLAIN, "tf32"), (FAST, "tf32")]
)
def test_precisions_that_a_device_has_not(case, precision):
    with pytest.raises(ValueError, match=f"EL077.*{precision}"):
        check_precision(precision, case)


def test_precisions():
    for case, names in (
        (PLAIN, ["float32"]),
        (FAST, ["float32", "half"]),
        (GPU, ["float32", "half", "tf32"]),
    ):
        for name in names:
            check_precision(name, case)
        with pytest.raises(ValueError, match="EL073"):
            check_precision("quick", case)
        with pytest.raises(ValueError, match=r"EL097.*'half'"):
            check_precision("int8", case)


@pytest.mark.parametrize("has", [True, False])
def test_precisions_of_training(has, monkeypatch):
    monkeypatch.setattr(plan, "has_bfloat16_products", lambda: has)
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    for precision, device in (("float32", cpu), ("bfloat16", gpu), ("tf32", gpu)):
        check_training_precision(precision, device)
    with pytest.raises(ValueError, match=r"EL077.*tf32"):
        check_training_precision("tf32", cpu)
    if has:
        check_training_precision("bfloat16", cpu)
    else:
        with pytest.raises(ValueError, match=r"EL077.*bfloat16"):
            check_training_precision("bfloat16", cpu)


def test_training_multiplies_as_before_its_checkpoint(monkeypatch):
    for has, best in (("avx512_bf16", "onednn"), ("amx", "torch"), ("avx2", "torch")):
        monkeypatch.setattr(plan, "instructions", lambda has=has: has)
        assert choose_training_matmul("cpu") == best
        assert choose_training_matmul("cpu", "torch") == "torch"
        if best == "torch":  # oneDNN would round to 16 bits, or is slower
            with pytest.warns(UserWarning, match=r"ELW55.*'onednn'.*'torch'"):
                assert choose_training_matmul("cpu", "onednn") == "torch"
    assert choose_training_matmul("cuda") == "torch"


@pytest.mark.parametrize(
    ("case", "sizes", "rows", "expected"),
    [
        (FAST, {}, 2, "native_lstm"),
        (FAST, UNCLIPPED, 1, "native_lstm"),
        (PLAIN, {}, 2, "torch_lstm"),
        (FAST._replace(dtype=torch.float64), {}, 2, "torch_lstm"),
        (FAST._replace(gradient=True), {}, 2, "autograd_lstm"),
        (FAST._replace(gradient=True), UNCLIPPED, 2, "autograd_lstm"),
        (GPU, {}, 256, "gpu_lstm"),
        (GPU, {}, 257, "torch_lstm"),
        (GPU._replace(gradient=True), {}, 257, "autograd_lstm"),
        (GPU, UNCLIPPED, 2, "cudnn_lstm"),
        (GPU._replace(gradient=True), UNCLIPPED, 2, "cudnn_lstm"),
        # cuDNN multiplies in float32 and TF32 alone where there is no gradient.
        (GPU._replace(precision="half"), UNCLIPPED, 2, "gpu_lstm"),
        (GPU._replace(precision="tf32"), UNCLIPPED, 2, "cudnn_lstm"),
        # A projection as wide as the cells is one that torch's LSTM does not see.
        (GPU, {**UNCLIPPED, "projection_dim": 12}, 300, "torch_lstm"),
    ],
)
def test_lstm(case, sizes, rows, expected):
    assert choose_lstm(case, tiny_config(**sizes), rows) == expected


def test_token_encoder():
    for case, expected in (
        (FAST, "native_tokens"),
        (PLAIN, "char_cnn"),
        (FAST._replace(gradient=True), "char_cnn"),
        (GPU, "char_cnn"),
        (DispatchKey("meta"), "definition"),
    ):
        assert choose_token_encoder(case, tiny_config()) == expected


def test_all_parts_are_told_at_once():
    found = chosen(FAST, tiny_config(), 1)
    assert found == {
        "token_encoder": "native_tokens",
        "lstm": "native_lstm",
        "matmul": "avx2",
    }
    training = chosen(FAST._replace(gradient=True), tiny_config(), 64)
    assert training["lstm"] == "autograd_lstm"
    assert training["matmul"] in KERNELS["training_matmul"]
    table = chosen(FAST, tiny_config(n_words=3), 1)
    assert table["token_encoder"] == "table"


def test_every_kernel_can_be_named():
    assert KERNELS["lstm"] == tuple(LSTM_KERNELS)
    assert KERNELS["token_encoder"] == tuple(TOKEN_KERNELS)


def test_what_has_not_run_on_a_gpu_is_not_chosen_there():
    assert choose_gradients("cuda") == "afterwards"


def test_a_kernel_can_be_forced():
    bilm = BiLM.random(tiny_config(), seed=1)
    expected = bilm.encode(SENTENCES)
    for part, name in [
        ("lstm", "definition"),
        ("lstm", "autograd_lstm"),
        ("lstm", "gpu_lstm"),
        ("token_encoder", "definition"),
        ("token_encoder", "char_cnn"),
    ]:
        bilm.token_cache.clear()
        with force(**{part: name}):
            for a, b in zip(bilm.encode(SENTENCES), expected):
                assert a == pytest.approx(b, abs=1e-6)


def test_forced_kernels_are_those_of_this_thread_and_block():
    config = tiny_config()

    def chosen():
        return choose_token_encoder(PLAIN, config), choose_lstm(PLAIN, config, 1)

    with force(lstm="autograd_lstm"):
        with force(token_encoder="definition"):
            assert chosen() == ("definition", "autograd_lstm")
            with ThreadPoolExecutor(1) as pool:
                assert pool.submit(chosen).result() == ("char_cnn", "torch_lstm")
        assert chosen() == ("char_cnn", "autograd_lstm")
    assert chosen() == ("char_cnn", "torch_lstm")


def test_a_variable_forces_kernels(monkeypatch, tiny):
    expected = tiny.encode(SENTENCES)
    setting = "token_encoder=char_cnn, lstm=definition"
    monkeypatch.setenv("SPACY_ELMO_KERNELS", setting)
    assert choose_lstm(FAST, tiny_config(), 2) == "definition"
    for a, b in zip(tiny.encode(SENTENCES), expected):
        assert a == pytest.approx(b, abs=1e-6)
    monkeypatch.setenv("SPACY_ELMO_KERNELS", "lstm=quick")
    with pytest.raises(ValueError, match=r"EL073.*quick"):
        tiny.encode(SENTENCES)


@pytest.mark.parametrize(
    ("kernels", "said"),
    [
        ({"lstm": "quick"}, "'quick'.*torch_lstm, autograd_lstm, definition"),
        ({"lstn": "torch_lstm"}, "'lstn'.*token_encoder, lstm"),
    ],
)
def test_unknown_kernels(kernels, said):
    with pytest.raises(ValueError, match=f"EL073.*{said}"), force(**kernels):
        pass


def test_kernels_that_can_not_run():
    bilm = BiLM.random(tiny_config())
    refused = pytest.raises(ValueError, match=r"EL150.*cudnn_lstm")
    with refused, force(lstm="cudnn_lstm"):  # it knows no clips
        bilm.encode(SENTENCES)
