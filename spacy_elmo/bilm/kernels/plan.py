"""The plan: which kernel computes which part. All choices are made here.

A choice depends on the dispatch key and on sizes alone; nothing is timed. The lists
have the kernels of a part, the best first. `force` and SPACY_ELMO_KERNELS override a
choice.
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
from .kernel import KERNELS, DispatchKey, LstmKernel, TokenKernel, pick

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
KERNELS |= {"token_encoder": tuple(TOKEN_KERNELS), "lstm": tuple(LSTM_KERNELS)}

# The most sequences of a step for which a GPU uses gpu_lstm (docs/kernels.md).
MOST_ROWS_AT_ONCE = 256


def choose_token_encoder(key: DispatchKey, config: BiLMConfig) -> str:
    """Return the name of the token encoder's kernel."""
    can_run = {name: k.can_run(key, config) for name, k in TOKEN_KERNELS.items()}
    best = "definition" if key.traced else _first(can_run)
    return pick("token_encoder", best, can_run)


def choose_lstm(key: DispatchKey, config: BiLMConfig, rows: float) -> str:
    """Return the name of the LSTM layers' kernel. rows: mean number of sequences of a
    step."""
    can_run = {name: k.can_run(key, config) for name, k in LSTM_KERNELS.items()}
    on_gpu = key.device == "cuda"
    better = {
        **can_run,
        "cudnn_lstm": on_gpu and can_run["cudnn_lstm"],
        "gpu_lstm": on_gpu and can_run["gpu_lstm"] and rows <= MOST_ROWS_AT_ONCE,
    }
    best = "definition" if key.traced else _first(better)
    return pick("lstm", best, can_run)


def choose_training_matmul(device: str, before: str | None = None) -> str:
    """Return the library that multiplies float32 matrices in training.

    Args:
        device: Type of the device.
        before: The library that a checkpoint names, which is used again if it can run;
            None for the best.

    Warns:
        UserWarning: [ELW55] The library of the checkpoint can't run.
    """
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
    """Return when the processes of a training average their gradients: "overlapped"
    with the backward pass, or "afterwards". The former has not run on a GPU yet."""
    can_run = {"overlapped": True, "afterwards": True}
    return pick("gradients", "overlapped" if device == "cpu" else "afterwards", can_run)


def choose_all(key: DispatchKey, config: BiLMConfig, rows: int) -> dict[str, str]:
    """Return the kernel of each part by name, and as "matmul" the library that
    multiplies matrices. rows: number of sequences of a step."""
    reads_characters = config.has_characters
    tokens = choose_token_encoder(key, config) if reads_characters else "table"
    chosen = {"token_encoder": tokens, "lstm": choose_lstm(key, config, rows)}
    if key.gradient:
        return {**chosen, "matmul": choose_training_matmul(key.device)}
    return {**chosen, "matmul": key.instructions or "torch"}


def check_precision(precision: Precision, key: DispatchKey) -> None:
    """Check that a device can compute in a precision of inference.

    Raises:
        ValueError: [EL073] There is no such precision. [EL077] The device does not have
            it. [EL097] It is int8, which was removed.
    """
    check_name(precision)
    known = {
        "float32": True,
        "half": key.device == "cuda" or key.instructions is not None,
        "tf32": key.device == "cuda",
    }
    if not known[precision]:
        raise Errors.EL077(precision=precision, device=key.device)


def check_training_precision(precision: str, device: torch.device) -> None:
    """Raise ValueError [EL077] if training in a precision is not faster on a device."""
    if device.type != "cpu" or precision == "float32":
        return
    if precision == "tf32" or not has_bfloat16_products():
        raise Errors.EL077(precision=precision, device="cpu")


def _first(can_run: dict[str, bool]) -> str:
    return next(name for name, can in can_run.items() if can)
