"""Which kernel computes what: chosen here and nowhere else.

Each function is a pure one of a case and of sizes; nothing is timed. The lists name the
kernels of a part, the best first. `force` and SPACY_ELMO_KERNELS override the choice.
"""

import warnings

import torch

from ...errors import Errors, Warnings
from ...machine import (
    Precision,
    check_name,
    has_bfloat16_products,
    instructions,
    onednn_is_on,
)
from ..config import BiLMConfig
from . import (
    autograd_lstm,
    char_cnn,
    cudnn_lstm,
    definition,
    gpu_lstm,
    native_lstm,
    native_tokens,
    torch_lstm,
)
from .kernel import Case, LstmKernel, TokenKernel, pick

TOKEN_KERNELS: dict[str, TokenKernel] = {
    "native_tokens": native_tokens,
    "char_cnn": char_cnn,
    "definition": definition.TOKENS,
}
LSTM_KERNELS: dict[str, LstmKernel] = {
    "native_lstm": native_lstm,
    "cudnn_lstm": cudnn_lstm,
    "gpu_lstm": gpu_lstm,
    "torch_lstm": torch_lstm,
    "autograd_lstm": autograd_lstm,
    "definition": definition.LSTM,
}

# Sequences of a step at most that a GPU reads in both directions by one operator, which
# launches a sixth of the kernels. Of 64 sentences of the small size an NVIDIA H200 was
# busy for 1.9 ms in place of 2.4, and waited for launches 85 to 90 % of the time,
# so it pays for some hundreds. (More were not measured.)
MOST_BY_ONE_OPERATOR = 256


def choose_token_encoder(case: Case, config: BiLMConfig) -> str:
    """Return the kernel of the char-CNN."""
    can_run = {name: k.can_run(case, config) for name, k in TOKEN_KERNELS.items()}
    return pick("token_encoder", _first(can_run), can_run)


def choose_lstm(case: Case, config: BiLMConfig, rows: float) -> str:
    """Return the kernel of the LSTM layers. rows: sequences of a step, on average."""
    can_run = {name: k.can_run(case, config) for name, k in LSTM_KERNELS.items()}
    on_gpu = case.device == "cuda"
    best = {
        **can_run,
        "cudnn_lstm": on_gpu and can_run["cudnn_lstm"],
        "gpu_lstm": on_gpu and can_run["gpu_lstm"] and rows <= MOST_BY_ONE_OPERATOR,
    }
    return pick("lstm", _first(best), can_run)


def choose_training_matmul(device: str, before: str | None = None) -> str:
    """Return how float32 matrices of training are multiplied on a device: as `before`,
    which a checkpoint says, or, with a warning [ELW55] where that can't run, by what
    is best."""
    no_amx = instructions().startswith("avx512")
    on_cpu = device == "cpu" and onednn_is_on()
    can_run = {"onednn": on_cpu and no_amx, "torch": True}
    if before is not None and can_run.get(before):
        return before
    now = pick("training_matmul", _first(can_run), can_run)
    if before is not None:
        warnings.warn(Warnings.ELW55(before=before, now=now), stacklevel=3)
    return now


def choose_gradients(device: str) -> str:
    """Return when processes of a training average gradients: while the backward pass
    computes others, which has not run on a GPU yet, or afterwards."""
    can_run = {"overlapped": True, "afterwards": True}
    return pick("gradients", "overlapped" if device == "cpu" else "afterwards", can_run)


def choose_all(case: Case, config: BiLMConfig, rows: int) -> dict[str, str]:
    """Return the kernel of each part, and the instructions of the C library."""
    reads_characters = config.has_characters
    tokens = choose_token_encoder(case, config) if reads_characters else "table"
    chosen = {"token_encoder": tokens, "lstm": choose_lstm(case, config, rows)}
    if case.gradient:
        return {**chosen, "matmul": choose_training_matmul(case.device)}
    return {**chosen, "matmul": case.instructions or "torch"}


def check_precision(precision: Precision, case: Case) -> None:
    """Check that a device infers in a precision. Raises ValueError [EL073] if it is not
    known, [EL077] if the device does not have it, [EL097] for int8, which is gone."""
    check_name(precision)
    known = {
        "float32": True,
        "half": case.device == "cuda" or case.instructions is not None,
        "tf32": case.device == "cuda",
    }
    if not known[precision]:
        raise Errors.EL077(precision=precision, device=case.device)


def check_training_precision(precision: str, device: torch.device) -> None:
    """Check that training in a precision pays on a device. Raises as above."""
    if device.type != "cpu" or precision == "float32":
        return
    if precision == "tf32" or not has_bfloat16_products():
        raise Errors.EL077(precision=precision, device="cpu")


def _first(can_run: dict[str, bool]) -> str:
    return next(name for name, can in can_run.items() if can)
