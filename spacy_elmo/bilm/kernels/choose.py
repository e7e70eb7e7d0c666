"""Which kernel computes what: chosen here and nowhere else.

Each function is a pure one of a case (processor, precision, exactness, gradient, dtype)
and of sizes, and returns a kernel's name, which is its file's; "definition" is
token_encoder.py or lstm.py. `force` overrides the choice.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ...errors import Errors
from ..config import BiLMConfig
from . import autograd_lstm, char_cnn, cpu_lstm, cudnn_lstm, threads
from .case import Case
from .matmul import FORMS

# Rows of a step times its cells from which two threads of Python, of which one at a
# time has the interpreter, are faster than one: 5 rows of 1024 cells are, 5 of 512 not.
LEAST_WORK = 4096

KERNELS = {
    "token_encoder": ("char_cnn", "definition"),
    "lstm": ("cudnn_lstm", "autograd_lstm", "cpu_lstm", "definition"),
    "matmul": tuple(FORMS),
    "directions": ("two_threads", "one_thread", "all_threads"),
}

_forced: ContextVar[dict[str, str]] = ContextVar("forced", default={})  # noqa: B039


def choose_token_encoder(case: Case) -> str:
    """Return the kernel of the char-CNN."""
    can_run = char_cnn.can_run(case)
    if name := _forced.get().get("token_encoder"):
        return _check("token_encoder", name, name == "definition" or can_run)
    return "char_cnn" if can_run else "definition"


def choose_lstm(case: Case, config: BiLMConfig) -> str:
    """Return the kernel of an LSTM layer."""
    can_run = {
        "cudnn_lstm": cudnn_lstm.can_run(config),
        "autograd_lstm": autograd_lstm.can_run(case),
        "cpu_lstm": cpu_lstm.can_run(case),
        "definition": True,
    }
    if name := _forced.get().get("lstm"):
        return _check("lstm", name, can_run[name])
    if case.processor.device == "cuda" and can_run["cudnn_lstm"]:
        return "cudnn_lstm"
    return "autograd_lstm" if case.gradient else "cpu_lstm"


def choose_matmul(case: Case) -> str:
    """Return the form of multiplications by weights, where no gradient is asked for.

    Raises:
        ValueError: The processor has none of the precision that is set [EL077].
    """
    if name := _forced.get().get("matmul"):
        return _check("matmul", name, FORMS[name].can_run(case))
    for name, form in FORMS.items():
        if form.can_run(case):
            return name
    device = case.processor.device
    raise ValueError(Errors.EL077.format(precision=case.precision, device=device))


def choose_directions(case: Case, cells: int, rows: float, n_threads: int) -> str:
    """Return the threads that the two directions are read on: "two_threads", each with
    half of torch's; "one_thread", one direction after the other, as are "all_threads".

    Args:
        case: As in the functions above.
        cells: LSTM cells of a direction (C).
        rows: Sequences of a step, on average.
        n_threads: What torch may use.
    """
    on_cpu = case.processor.device == "cpu" and not case.gradient
    can_run = on_cpu and n_threads > 1 and threads.can_run()
    if name := _forced.get().get("directions"):
        return _check("directions", name, name == "all_threads" or can_run)
    if not can_run:
        return "all_threads"
    return "two_threads" if rows * cells >= LEAST_WORK else "one_thread"


def choose_all(
    case: Case, config: BiLMConfig, rows: float, n_threads: int
) -> dict[str, str]:
    """Return the kernel of each part. Arguments are those of the functions above."""
    matmul = "torch" if case.gradient else choose_matmul(case)
    cells = config.hidden_dim
    return {
        "token_encoder": choose_token_encoder(case)
        if config.has_characters
        else "table",
        "lstm": choose_lstm(case, config),
        "matmul": matmul,
        "directions": choose_directions(case, cells, rows, n_threads),
    }


@contextmanager
def force(**kernels: str) -> Iterator[None]:
    """Use these kernels in this thread inside, to test them or to find a fault.

    Args:
        kernels: By part: token_encoder, lstm, matmul, directions; names as in KERNELS.

    Raises:
        ValueError: A part or kernel is not known [EL073]; a kernel can't run what it is
            asked for, inside [EL150].
    """
    for part, name in kernels.items():
        known = KERNELS.get(part, tuple(KERNELS))
        if part not in KERNELS or name not in known:
            found = name if part in KERNELS else part
            raise ValueError(Errors.EL073.format(found=found, known=", ".join(known)))
    token = _forced.set({**_forced.get(), **kernels})
    try:
        yield
    finally:
        _forced.reset(token)


def _check(part: str, name: str, can_run: bool) -> str:
    if not can_run:
        raise ValueError(Errors.EL150.format(part=part, name=name))
    return name
