"""Which kernel computes what: chosen here and nowhere else.

Each function is a pure one of a case (processor, precision, exactness, gradient, dtype)
and of sizes, rows and threads, and returns a kernel's name, which is its file's or, of
a matrix multiplication, that of a form in matmul.py; "definition" is token_encoder.py
or lstm.py. Nothing is timed. forced.py overrides it.
"""

import warnings
from collections.abc import Mapping, Sequence
from math import inf

import torch

from ...errors import Errors, Warnings
from ...machine import threads
from ..config import BiLMConfig
from . import cudnn_lstm, gpu_lstm
from .forced import forced_kernels, pick
from .matmul import FORMS, SAME_BITS, Rule, find_form
from .processor import Case, Precision, Processor, check_name, processor_of

# Microseconds on one core of an AMD EPYC (Zen 4), beside other work, by MKL, by oneDNN
# with a copy of the weight, and by oneDNN with the weight where it lies:
#     3 rows  1024x128: 30, 37, 38    128x4096: 113, 79, 128
#    64 rows  256x8192: 6607, 3649, 4143 (limited to AVX2: 6021, 4746, 5261)
#   512 rows  2048x2048: 55521, 41718, 45976 (AVX2: 51093, 46624, 49399)
# From 128 rows on a copy brings about a tenth, which that of a small weight is worth:
# it takes little memory.
FLOAT32 = (Rule("onednn", rows=128, n_bytes=4 << 20), Rule("onednn_in_place"))
# With AMX, of any number of rows: see RECURRENT.
MKL = Rule("mkl", rows=0, n_bytes=4 << 20)
# 64 rows of 512x16384, EPYC: 6869 and 13954 (float32 13055). Where oneDNN emulates
# bfloat16 (ONEDNN_MAX_CPU_ISA=AVX512_CORE): 32658 and 13960.
BFLOAT16, FLOAT16 = Rule("onednn_bfloat16"), Rule("fbgemm_float16")
# 64 rows of 512x16384, EPYC: 4136.
INT8 = (Rule("onednn_int8"),)

# Instructions of a CPU -> precision -> rules, of which the first holds whose form works
# with this torch; torch's own multiplication of float32 is the last of all.
# `python -m benchmarks.kernels` prints what should change for a processor.
TABLE: dict[str, dict[str, tuple[Rule, ...]]] = {
    # Sapphire Rapids: float32 100 GFLOP/s, bfloat16 300-400, int8 400-530.
    "amx": {"float32": (MKL, *FLOAT32), "half": (BFLOAT16, FLOAT16), "int8": INT8},
    # A Xeon without AMX: float32 and float16 150 GFLOP/s, bfloat16 80.
    "avx512_fp16": {"float32": FLOAT32, "half": (FLOAT16, BFLOAT16), "int8": INT8},
    # EPYC (Zen 4): float32 100, bfloat16 210, int8 410.
    "avx512_bf16": {"float32": FLOAT32, "half": (BFLOAT16, FLOAT16), "int8": INT8},
    "avx512_vnni": {"float32": FLOAT32, "half": (FLOAT16,), "int8": INT8},
    "avx512": {"float32": FLOAT32, "half": (FLOAT16,)},
    "avx2": {"float32": FLOAT32, "half": (FLOAT16,)},
    "unknown": {},
}
ON_GPU: dict[str, tuple[Rule, ...]] = {
    "half": (Rule("cuda_float16"),),
    "tf32": (Rule("torch"),),
}
# Instructions and form -> GFLOP/s of it and of float32, which is faster.
SLOWER = {("avx512_fp16", "onednn_bfloat16"): (80, 150)}

# Elements of a recurrent weight: one row is multiplied in float32 rather than in fewer
# bits. Microseconds on the EPYC above, half, int8 and float32 by one_row.py:
#     small 57, 164, 44    medium 139, 179, 134    original 592, 317, 1088
# With AMX, by FBGEMM, milliseconds of a sentence (`spacy elmo benchmark inference`):
#     medium 42, 30, 56       original 117, 73, 191
SMALL_FOR_ONE_ROW = 1 << 22
SMALL_FOR_FBGEMM = 1 << 20
# Instructions -> precision -> form of recurrent weights, before those of TABLE: in
# fewer bits that of a sentence alone, or of two; in float32 that of weights so small,
# by MKL, for any number of rows. Microseconds on a Xeon with AMX, by oneDNN and by the
# form here (`python -m benchmarks.kernels --whole`):
#     1 row   half 256x8192: 240, 183    512x16384: 787, 640
#             int8 256x8192: 164, 93     512x16384: 488, 373
#     2 rows  float32 128x4096: 93, 37    1024x128: 24, 6    256x8192: 370, 302
#    64 rows          128x4096: 449, 307  1024x128: 86, 75   256x8192: 1570, 1299
# On an EPYC (Zen 4), where one row in half gains nothing:
#     1 row   int8 256x8192: 117, 54      512x16384: 230, 130    4096x512: 110, 45
#     2 rows       256x8192: 133, 117     512x16384: 276, 269    4096x512: 126, 97
RECURRENT = {
    "amx": {
        "float32": Rule("mkl", rows=0, n_bytes=8 << 20),
        "half": Rule("fbgemm_float16", rows=2),
        "int8": Rule("fbgemm_int8", rows=2),
    },
    "avx512_bf16": {"int8": Rule("fbgemm_int8", rows=3)},
}

# Rows of a step times its cells from which two threads of Python, of which one at a
# time has the interpreter, are faster than one: 5 rows of 1024 cells are, 5 of 512 not.
LEAST_WORK = 4096

# Sequences of a step at most that a GPU reads in both directions by one operator, which
# launches a sixth of the kernels. Of 64 sentences of the small size an NVIDIA H200 was
# busy for 1.9 ms in place of 2.4, and waited for launches 85 to 90 % of the time,
# so it pays for some hundreds. (More were not measured.)
MOST_BY_ONE_OPERATOR = 256

# Sequences at most that are read one after another by one_row.py. Milliseconds of 2, 3,
# 4 sentences together and so, one thread of an AMD EPYC (Zen 3):
#     small 39, 44, 38 and 25, 39, 48    medium 112, 136, 146 and 73, 116, 163
FEW = {"avx2": 3}


def choose_token_encoder(case: Case) -> str:
    """Return the kernel of the char-CNN."""
    # On a GPU the two were not timed against each other. "char_cnn" has its vectors,
    # looks up none of cuDNN's plans, and can multiply in 16 bits.
    can_run = {"char_cnn": case.processor.device in ("cpu", "cuda"), "definition": True}
    return pick("token_encoder", _first(can_run), can_run)


def choose_lstm(case: Case, config: BiLMConfig, rows: float) -> str:
    """Return the kernel of an LSTM layer. rows: of its first step."""
    can_run = {
        # It rounds to nothing but TF32.
        "cudnn_lstm": cudnn_lstm.can_run(config)
        and (case.gradient or case.precision in ("float32", "tf32")),
        "one_row": rows == 1
        and case.processor.device == "cpu"
        and not (case.gradient or case.exact)
        and case.dtype == torch.float32
        and (case.precision == "float32" or is_small(case, config)),
        "cpu_lstm": not case.gradient,
        "autograd_lstm": True,
        "definition": True,
    }
    on_gpu = case.processor.device == "cuda"
    best = _first({**can_run, "cudnn_lstm": on_gpu and can_run["cudnn_lstm"]})
    return pick("lstm", best, can_run)


def is_small(case: Case, config: BiLMConfig) -> bool:
    """Return whether recurrent weights are so few that one row is multiplied as fast in
    float32 as in fewer bits."""
    size = 4 * config.hidden_dim * config.projection_dim
    by_fbgemm = case.precision in RECURRENT.get(case.processor.instructions, {})
    return size < (SMALL_FOR_FBGEMM if by_fbgemm else SMALL_FOR_ONE_ROW)


def choose_matmul(case: Case) -> tuple[Rule, ...]:
    """Return the forms of multiplications by weights, where no gradient is asked for,
    by rows: `find_form` finds one. Raises ValueError [EL077] if the processor
    has none of the precision that is set."""
    processor, precision = case.processor, case.precision
    rules = ON_GPU if processor.device == "cuda" else TABLE[processor.instructions]
    found = [r for r in rules.get(precision, ()) if r.form in processor.forms]
    if precision == "float32":
        found = [*found, Rule("torch")] if case.dtype == torch.float32 else []
        found = found or [Rule("torch")]
    if not found:
        device = processor.device
        raise ValueError(Errors.EL077.format(precision=precision, device=device))
    if case.exact:  # one order of summation for any number of rows
        last = next(r.form for r in found if r.rows == inf)
        same = SAME_BITS if last in SAME_BITS else {last}
        found = [rule for rule in found if rule.form in same]
        if last == "torch" and processor.device == "cpu":
            found = [Rule("torch_in_blocks")]
    if "matmul" not in forced_kernels():
        return tuple(found)
    known = {
        r.form for row in (*TABLE.values(), ON_GPU) for r in row.get(precision, ())
    }
    can_run = {name: name in known & processor.forms for name in FORMS}
    can_run["mkl"] = precision == "float32" and "mkl" in processor.forms
    for name in ("torch", "torch_in_blocks"):
        can_run[name] = precision in ("float32", "tf32")
    return (Rule(pick("matmul", found[0].form, can_run)),)


def choose_recurrent_matmul(case: Case) -> tuple[Rule, ...]:
    """Return the forms of multiplications by recurrent weights: those of
    `choose_matmul`, and before them that of RECURRENT."""
    rules = choose_matmul(case)
    first = RECURRENT.get(case.processor.instructions, {}).get(case.precision)
    can_run = first is not None and first.form in case.processor.forms
    other = case.exact or case.dtype != torch.float32 or "matmul" in forced_kernels()
    return rules if first is None or not can_run or other else (first, *rules)


def choose_training_matmul(processor: Processor, before: str | None = None) -> str:
    """Return how float32 matrices of training are multiplied on a device: as `before`,
    which a checkpoint says, or, with a warning [ELW55] where that can't run, by what
    is best."""
    no_amx = processor.instructions.startswith("avx512")
    can_run = {"onednn": no_amx and "onednn" in processor.forms, "torch": True}
    if before is not None and can_run.get(before):
        return before
    now = pick("training_matmul", _first(can_run), can_run)
    if before is not None:
        message = Warnings.ELW55.format(before=before, now=now)
        warnings.warn(message, stacklevel=3)
    return now


def choose_directions(
    case: Case, config: BiLMConfig, rows: float, n_threads: int
) -> str:
    """Return how the two directions are read: on "two_threads", each with half of
    torch's n_threads; one direction after the other, on "one_thread" or "all_threads";
    or both by "one_operator" (gpu_lstm.py), on a GPU where cuDNN can't read a model and
    sequences are few. rows: sequences of a step, on average."""
    several = can_share(case, n_threads)
    can_run = {
        "two_threads": several,
        "one_thread": several,
        "all_threads": True,
        "one_operator": gpu_lstm.can_run(config)
        and (case.gradient or case.precision != "int8"),
    }
    enough = several and rows * config.hidden_dim >= LEAST_WORK
    best = _first({**can_run, "two_threads": enough})
    on_gpu = case.processor.device == "cuda" and rows <= MOST_BY_ONE_OPERATOR
    if on_gpu and can_run["one_operator"] and "lstm" not in forced_kernels():
        by_cudnn = choose_lstm(case, config, rows) == "cudnn_lstm"
        best = best if by_cudnn else "one_operator"
    return pick("directions", best, can_run)


def choose_sequences(case: Case, config: BiLMConfig, rows: int, n_threads: int) -> str:
    """Return how the sequences of a batch are read. rows: how many they are."""
    size = 4 * config.hidden_dim * config.projection_dim
    by_rows = choose_lstm(case, config, 1) == "one_row" and size < SMALL_FOR_ONE_ROW
    few = 1 < rows <= FEW.get(case.processor.instructions, 1)
    shared = choose_directions(case, config, rows, n_threads) == "two_threads"
    can_run = {"one_by_one": not case.gradient, "together": True}
    best = "one_by_one" if by_rows and few and not shared else "together"
    return pick("sequences", best, can_run)


def choose_gradients(device: torch.device) -> str:
    """Return when processes of a training average gradients: while the backward pass
    computes others, which has not run on a GPU yet, or afterwards."""
    can_run = {"overlapped": True, "afterwards": True}
    best = "overlapped" if device.type == "cpu" else "afterwards"
    return pick("gradients", best, can_run)


def can_share(case: Case, n_threads: int) -> bool:
    """Return whether two threads of Python can share large pieces of work."""
    on_cpu = case.processor.device == "cpu" and not case.gradient
    return on_cpu and n_threads > 1 and threads.can_run()


def choose_all(
    case: Case, config: BiLMConfig, rows: int, n_threads: int
) -> dict[str, str]:
    """Return the kernel of each part. Arguments are those of the functions above."""
    reads_characters = config.has_characters
    if case.gradient:
        matmul = choose_training_matmul(case.processor)
    else:
        matmul = describe(choose_recurrent_matmul(case))
    return {
        "token_encoder": choose_token_encoder(case) if reads_characters else "table",
        "lstm": choose_lstm(case, config, rows),
        "matmul": matmul,
        "directions": choose_directions(case, config, rows, n_threads),
        "sequences": choose_sequences(case, config, rows, n_threads),
    }


def describe(rules: Sequence[Rule]) -> str:
    """Return rules as words without spaces."""
    words = []
    for rule in rules:
        limits = f"<{rule.rows}rows" if rule.rows < inf else ""
        if rule.n_bytes:
            limits += f"|<={rule.n_bytes >> 20}MB"
        words.append(rule.form + limits)
    return ",".join(words)


def check_precision(precision: Precision, device: torch.device) -> None:
    """Check that inference in a precision pays on a device, and warn [ELW54] if it is
    slower than float32. Raises ValueError [EL073] if it is not known, [EL077] if the
    processor has no instructions for it."""
    check_name(precision)
    processor = processor_of(device)
    rules = choose_matmul(Case(processor, precision))
    _warn_if_slower(precision, processor, find_form(rules, 64))


def check_training_precision(precision: str, device: torch.device) -> None:
    """Check that training in a precision pays on a device. Raises, warns as above."""
    processor = processor_of(device)
    if device.type == "cpu" and precision != "float32":
        forms = TABLE[processor.instructions].get("half", ())
        if precision == "tf32" or BFLOAT16 not in forms:
            message = Errors.EL077.format(precision=precision, device=device.type)
            raise ValueError(message)
        _warn_if_slower(precision, processor, BFLOAT16.form)


def _warn_if_slower(precision: str, processor: Processor, form: str) -> None:
    figures = SLOWER.get((processor.instructions, form))
    if figures:
        message = Warnings.ELW54.format(precision=precision, speeds=figures)
        warnings.warn(message, stacklevel=4)


def _first(can_run: Mapping[str, bool]) -> str:
    return next(name for name, can in can_run.items() if can)
