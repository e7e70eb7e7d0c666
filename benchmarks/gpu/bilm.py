"""The first stage: the biLM, its kernels and training, without spaCy."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import numpy as np
import torch

from benchmarks.inference import Definition
from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.encode import pack
from spacy_elmo.bilm.kernels import DispatchKey, cudnn_lstm, force
from spacy_elmo.bilm.token_cache import TokenCache

from ..speed import (
    Run,
    Sentences,
    in_turn,
    made_up_sentences,
    made_up_words,
)
from . import training
from .common import configs, run_tests, uneven_sentences, waits
from .floor import (
    DATASHEET,
    STEPS_OF,
    char_cnn_flops,
    floor,
    lstm_bytes,
    lstm_flops,
    rates,
    training_flops,
)
from .runner import Context, Rows, Step, Tables
from .trace import copies_and_waits, longest, summary, traced

TESTS = ["tests/gpu/test_bilm.py", "tests/gpu/test_training.py"]
BATCHES = (64, 256, 1024, 4096)
# Kernels to compare, by the name of a row.
KERNELS: dict[str, dict[str, str]] = {
    "chosen": {},
    "both directions at once": {"lstm": "gpu_lstm"},
    "cuDNN": {"lstm": "cudnn_lstm"},
    "one direction after the other": {"lstm": "torch_lstm"},
    "char-CNN by convolutions": {"token_encoder": "definition"},
}
# Of the adaptive softmax of 50,000 words on average, the sampled one, the full one.
LOGITS = (6_800, 8_192, 50_000)
DEFINITION_AT_MOST = 256  # sentences at once, which take most of the time


def numbers(context: Context) -> Tables:
    """Operations and bytes before the first call, and the speed that they allow."""
    rows: Rows = []
    for name, config in configs(context).items():
        for batch in BATCHES:
            of_one = {"size": name, "rows of a step": batch}
            of_one["MFLOP a token"] = lstm_flops(config) / 1e6
            of_one["kB a token"] = lstm_bytes(config, batch) / 1e3
            for card, known in DATASHEET.items():
                for precision in ("float32", "half"):
                    least = min(floor(config, batch, known, precision).values())
                    of_one[f"{card} {precision}, tokens/s"] = least
            rows.append(of_one)
    tables: Tables = {"LSTMs, calculated from data sheets": rows}
    rows = tables["training, calculated from data sheets"] = []
    for name, config in configs(context).items():
        for logits in LOGITS:
            flops = training_flops(config, logits)
            row = {"size": name, "logits of a prediction": logits}
            row["MFLOP a distinct word"] = char_cnn_flops(config) / 1e6
            row["MFLOP a token"] = flops / 1e6
            for card, known in DATASHEET.items():
                for precision in ("float32", "half"):
                    row[f"{card} {precision}, tokens/s"] = known[precision] / flops
            rows.append(row)
    return tables


def peaks(context: Context) -> Tables:
    """Rates of this device, measured."""
    found = rates(context.device, context.tiny)
    rows = [
        {"rate": name, "tera (FLOP or bytes)/s": rate / 1e12}
        for name, rate in found.items()
    ]
    return {"measured": rows}


def tests(context: Context) -> Tables:
    """The tests that are marked gpu."""
    return {"tests": run_tests(TESTS, context)}


def vectors(context: Context) -> Tables:
    """Vectors against those of the CPU, in parts of the largest value."""
    rows: Rows = []
    sentences = uneven_sentences(4 if context.tiny else 48)
    for name, config in context.while_time(list(configs(context).items())):
        bilm = BiLM.random(config, seed=1)
        expected = bilm.encode(sentences)
        bilm.to(context.device)
        for label, precision, kernels in _ways(config, context):
            bilm.set_precision(precision)  # type: ignore[arg-type]
            with force(**kernels):
                found = bilm.encode(sentences)
                alone = [array for s in sentences for array in bilm.encode([s])]
            row = {"size": name, "kernels": label, "precision": precision}
            row["error"] = _largest(found, expected)
            rows.append({**row, "alone against in a batch": _largest(alone, found)})
    return {"largest difference / largest value": rows}


def _largest(found: list[np.ndarray], expected: list[np.ndarray]) -> float:
    largest = max(float(abs(array).max()) for array in expected)
    return max(float(abs(a - b).max()) for a, b in zip(found, expected)) / largest


def _ways(
    config: BiLMConfig, context: Context
) -> list[tuple[str, str, dict[str, str]]]:
    """Return names, precisions and kernels that a model can be read with."""
    with_clips = not cudnn_lstm.can_run(DispatchKey("cuda"), config)
    found = []
    for label, kernels in KERNELS.items():
        on_gpu = ["tf32", "half"] if context.device != "cpu" else []
        for precision in ["float32", *on_gpu]:
            if label == "cuDNN" and (with_clips or precision == "half"):
                continue
            found.append((label, precision, kernels))
    return found


def syncs(context: Context) -> Tables:
    """Where the host waits for the GPU: in training steps, perplexity and reading."""
    bilm = _model(_first(context), context)
    sentences = uneven_sentences(32)

    def read() -> None:
        for _ in range(5):
            bilm(pack(sentences))

    with torch.no_grad():
        read()  # kernels are compiled, weights prepared
        tables = {"5 batches read": waits(read, context.device)}
    return {**tables, **training.syncs(context)}


def _first(context: Context) -> BiLMConfig:
    return next(iter(configs(context).values()))


def _model(config: BiLMConfig, context: Context) -> BiLM:
    return BiLM.random(config).to(context.device).eval()


def profile(context: Context) -> Tables:
    """Launches a token, gaps and copies, in reading and in a training step."""
    rows: Rows = []
    tables: Tables = {}
    sentences = made_up_sentences(made_up_words(5_000), 64 * 20)
    tokens = float(sum(map(len, sentences)))
    bilm = _model(_first(context), context)
    runs: list[tuple[str, float, Run, AbstractContextManager[None]]] = []
    with torch.no_grad():
        for label in ("one direction after the other", "both directions at once"):
            run = partial(read, bilm, sentences, 64)
            runs.append(
                (f"64 sentences, {label}", tokens, run, force(**KERNELS[label]))
            )
        for label, batch, step in training.steps_to_profile(context):
            runs.append((f"training, {label}", batch, step, nullcontext()))
        for label, n, run, kernels in runs:
            with kernels, torch.set_grad_enabled(label.startswith("training")):
                for _ in range(3):
                    run()
                events = traced(run, context.device)
            rows.append({"what": label, **summary(events, n)})
            tables[f"{label}: kernels"] = longest(events)
            tables[f"{label}: copies and waits"] = copies_and_waits(events)
    return {"gaps": rows, **tables}


def read(bilm: BiLM, sentences: Sentences, batch: int) -> float:
    """Read sentences into layers on the device. Return their tokens."""
    for start in range(0, len(sentences), batch):
        bilm(pack(sentences[start : start + batch]))
    return float(sum(map(len, sentences)))


def reading(context: Context) -> Tables:
    """Tokens/s from words to layers on the device, cold: by kernels and batches."""
    title = f"tokens/s, sentences of {STEPS_OF - 2} tokens"
    rows = context.tables[title] = []
    batches = (2, 4) if context.tiny else BATCHES
    words = made_up_words(50_000)
    sentences = made_up_sentences(words, 20 * batches[-1])
    cases = [
        (batch, name, config)
        for batch in batches
        for name, config in configs(context).items()
    ]
    cases.sort(key=lambda case: case[2].hidden_dim)  # if time is short, small ones
    measured = rates(context.device, context.tiny)
    for batch, name, config in context.while_time(cases, share=0.1):
        some = sentences[: max(batch, min(256, batches[-1]))]
        row = {"size": name, "batch": batch, **_speeds(config, some, batch, context)}
        for precision in ("float32", "half"):
            limits = floor(config, batch, measured, precision)
            row[f"floor, {precision}"] = min(
                limits["by operations"], limits["by bytes"]
            )
        row["steps' launches allow"] = floor(config, batch, measured, "float32")[
            "by launches"
        ]
        rows.append(row)
    return context.tables


def _speeds(
    config: BiLMConfig, sentences: Sentences, batch: int, context: Context
) -> Mapping[str, float | None]:
    """Return tokens/s of the definition and of all kernels, each on its own, since one
    may not fit the memory."""
    found: dict[str, float | None] = {}
    with torch.no_grad():
        if batch <= DEFINITION_AT_MOST:
            definition = Definition(_model(config, context))
            run = partial(_read_by, definition, sentences, batch)
            found["definition"] = _speed(run)
        for label, precision, kernels in _ways(config, context):
            bilm = _model(config, context)
            bilm.set_precision(precision)  # type: ignore[arg-type]
            bilm.token_cache = TokenCache(0)
            with force(**kernels):
                speed = _speed(partial(read, bilm, sentences, batch))
            found[f"{label}, {precision}"] = speed
        if batch == BATCHES[0]:
            bilm = _model(config, context)
            found["chosen, warm"] = _speed(partial(read, bilm, sentences, batch))
        run = partial(_encode, _model(config, context), sentences, batch)
        found["encode, to the host"] = _speed(run)
    return found


def _speed(run: Callable[[], float]) -> float | None:
    try:
        return in_turn({"it": run}, 2)["it"]
    except torch.cuda.OutOfMemoryError:
        torch.cuda.empty_cache()
        return None


def _read_by(definition: Definition, sentences: Sentences, batch: int) -> float:
    for start in range(0, len(sentences), batch):
        definition.encode(sentences[start : start + batch])
    return float(sum(map(len, sentences)))


def _encode(bilm: BiLM, sentences: Sentences, batch: int) -> float:
    tokens = batch * STEPS_OF
    for start in range(0, len(sentences), batch):
        bilm.encode(sentences[start : start + batch], batch_tokens=tokens)
    return float(sum(map(len, sentences)))


def speeds_of_training(context: Context) -> Tables:
    """Tokens/s of training, by objective, vocabulary, clips and kernels."""
    return training.speeds(context)


def kill_and_resume(context: Context) -> Tables:
    """A run that is killed and resumes where hardly more memory is free than it plans
    to take."""
    return training.kill_and_resume(context)


def torchrun(context: Context) -> Tables:
    """A run of one process under torchrun, which talks through NCCL."""
    return training.torchrun(context)


STEPS = [
    Step(numbers, 10),
    Step(peaks, 20),
    Step(tests, 110),
    Step(vectors, 60),
    Step(syncs, 40),
    Step(profile, 45),
    Step(reading, 110),
    Step(speeds_of_training, 90),
    Step(kill_and_resume, 60),
    Step(torchrun, 60),
]
