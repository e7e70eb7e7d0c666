"""Which kernel computes what: chosen here and nowhere else.

Each function is a pure one of a case (processor, precision, exactness, gradient, dtype)
and of sizes, and returns a kernel's name, which is its file's; "definition" is
token_encoder.py or lstm.py. `force` overrides the choice.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from ...errors import Errors
from ..config import BiLMConfig
from . import cudnn_lstm, gpu_lstm, threads
from .matmul import FORMS
from .processor import Case, Precision, check_name, processor_of

# Rows of a step times its cells from which two threads of Python, of which one at a
# time has the interpreter, are faster than one: 5 rows of 1024 cells are, 5 of 512 not.
LEAST_WORK = 4096

KERNELS = {
    "token_encoder": ("char_cnn", "definition"),
    "lstm": ("cudnn_lstm", "autograd_lstm", "cpu_lstm", "definition"),
    "matmul": tuple(FORMS),
    "directions": ("two_threads", "one_thread", "all_threads", "one_operator"),
}

_forced: ContextVar[dict[str, str]] = ContextVar("forced", default={})  # noqa: B039


def choose_token_encoder(case: Case) -> str:
    """Return the kernel of the char-CNN."""
    # On a GPU the lengths of words would have to be waited for.
    can_run = {"char_cnn": case.processor.device == "cpu", "definition": True}
    return _choose("token_encoder", _first(can_run), can_run)


def choose_lstm(case: Case, config: BiLMConfig) -> str:
    """Return the kernel of an LSTM layer."""
    can_run = {
        # It rounds to nothing but TF32.
        "cudnn_lstm": cudnn_lstm.can_run(config)
        and (case.gradient or case.precision in ("float32", "tf32")),
        "cpu_lstm": not case.gradient,
        "autograd_lstm": True,
        "definition": True,
    }
    on_gpu = case.processor.device == "cuda"
    best = _first({**can_run, "cudnn_lstm": on_gpu and can_run["cudnn_lstm"]})
    return _choose("lstm", best, can_run)


def choose_matmul(case: Case) -> str:
    """Return the form of multiplications by weights, where no gradient is asked for.
    Raises ValueError [EL077] if the processor has none of the precision that is set."""
    processor, precision = case.processor, case.precision
    float32, half = precision == "float32", precision == "half"
    can_run = {
        "onednn_int8": precision == "int8" and processor.int8,
        "onednn_bfloat16": half and processor.onednn and processor.bfloat16,
        "cuda_float16": half and processor.device == "cuda",
        "onednn": float32 and processor.onednn and case.dtype == torch.float32,
        "torch": float32 or (precision == "tf32" and processor.device == "cuda"),
    }
    if not any(can_run.values()):
        device = processor.device
        raise ValueError(Errors.EL077.format(precision=precision, device=device))
    return _choose("matmul", _first(can_run), can_run)


def choose_directions(
    case: Case, config: BiLMConfig, rows: float, n_threads: int
) -> str:
    """Return how the two directions are read: on "two_threads", each with half of
    torch's n_threads; one direction after the other, on "one_thread" or "all_threads";
    or both by "one_operator" (gpu_lstm.py), which has not run on a GPU yet and so is
    never chosen, but can be forced. rows: sequences of a step, on average."""
    on_cpu = case.processor.device == "cpu" and not case.gradient
    several = on_cpu and n_threads > 1 and threads.can_run()
    can_run = {
        "two_threads": several,
        "one_thread": several,
        "all_threads": True,
        "one_operator": gpu_lstm.can_run(config)
        and (case.gradient or case.precision != "int8"),
    }
    enough = several and rows * config.hidden_dim >= LEAST_WORK
    return _choose("directions", _first({**can_run, "two_threads": enough}), can_run)


def choose_all(
    case: Case, config: BiLMConfig, rows: float, n_threads: int
) -> dict[str, str]:
    """Return the kernel of each part. Arguments are those of the functions above."""
    reads_characters = config.has_characters
    return {
        "token_encoder": choose_token_encoder(case) if reads_characters else "table",
        "lstm": choose_lstm(case, config),
        "matmul": "torch" if case.gradient else choose_matmul(case),
        "directions": choose_directions(case, config, rows, n_threads),
    }


def check_precision(precision: Precision, device: torch.device) -> None:
    """Check that inference in a precision pays on a device. Raises ValueError [EL073]
    if it is not known, [EL077] if the processor has no instructions for it."""
    check_name(precision)
    choose_matmul(Case(processor_of(device), precision))


@contextmanager
def force(**kernels: str) -> Iterator[None]:
    """Use these kernels, by part as in KERNELS, in this thread inside, to test them or
    to find a fault. Raises ValueError [EL073] if a part or kernel is not known, and
    inside [EL150] where a kernel can't run what it is asked for."""
    for part, name in kernels.items():
        for found, known in ((part, KERNELS), (name, KERNELS.get(part, ()))):
            if found not in known:
                message = Errors.EL073.format(found=found, known=", ".join(known))
                raise ValueError(message)
    token = _forced.set({**_forced.get(), **kernels})
    try:
        yield
    finally:
        _forced.reset(token)


def _first(can_run: Mapping[str, bool]) -> str:
    return next(name for name, can in can_run.items() if can)


def _choose(part: str, best: str, can_run: Mapping[str, bool]) -> str:
    name = _forced.get().get(part, best)
    if not can_run[name]:
        raise ValueError(Errors.EL150.format(part=part, name=name))
    return name
