"""The plan: which kernel computes which part. All choices are made here.

A choice depends on the dispatch key and on sizes alone; nothing is timed. The lists
have the kernels of a part, the best first. `force` and SPACY_ELMO_KERNELS override a
choice.
"""

import warnings
from collections.abc import Callable, Collection

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
from .kernel import KERNELS, DispatchKey, LstmKernel, TokenKernel, forced_kernels

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
    return _pick("token_encoder", can_run, {"definition"} if key.traced else can_run)


def choose_lstm(key: DispatchKey, config: BiLMConfig, rows: float) -> str:
    """Return the name of the LSTM layers' kernel. rows: mean number of sequences of a
    step."""
    can_run = {name: k.can_run(key, config) for name, k in LSTM_KERNELS.items()}
    suits = {"definition"} if key.traced else set(can_run)
    if key.device != "cuda":
        suits -= {"cudnn_lstm", "gpu_lstm"}
    elif rows > MOST_ROWS_AT_ONCE:
        suits -= {"gpu_lstm"}
    return _pick("lstm", can_run, suits)


def _pick(part: str, can_run: dict[str, bool], suits: Collection[str]) -> str:
    """Return the kernel of a part: the forced one, or else the first that can run and
    suits. Raises ValueError [EL150] if the forced one can't run."""
    best = next(name for name, can in can_run.items() if can and name in suits)
    name = forced_kernels().get(part, best)
    if not can_run[name]:
        known = ", ".join(each for each, can in can_run.items() if can)
        raise Errors.EL150(part=part, name=name, known=known)
    return name


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
    now = _pick("training_matmul", can_run, can_run)
    if before is not None:
        warnings.warn(Warnings.ELW55(before=before, now=now), stacklevel=3)
    return now


def choose_gradients(device: str) -> str:
    """Return when the processes of a training average their gradients: "overlapped"
    with the backward pass, or "afterwards". The former has not run on a GPU yet."""
    best = "overlapped" if device == "cpu" else "afterwards"
    return forced_kernels().get("gradients", best)


def choices(
    key: DispatchKey, config: BiLMConfig, rows: int
) -> dict[str, Callable[[], str]]:
    """Return a function for each part of a model that chooses its kernel, and as
    "matmul" one that chooses the library that multiplies matrices. A function raises
    ValueError [EL150] if the forced kernel can't run. rows: number of sequences of a
    step."""
    return {
        "token_encoder": lambda: (
            choose_token_encoder(key, config) if config.has_characters else "table"
        ),
        "lstm": lambda: choose_lstm(key, config, rows),
        "matmul": lambda: (
            choose_training_matmul(key.device)
            if key.gradient
            else key.instructions or "torch"
        ),
    }


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
