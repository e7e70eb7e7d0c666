"""Text, models, a clock and tables for all benchmarks. It needs no spaCy."""

import copy
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from spacy_elmo.bilm import PUBLISHED, BiLM, TokenCache
from spacy_elmo.bilm.kernels import check_precision, dispatch_key_of
from spacy_elmo.machine import PRECISIONS, describe_cpu
from spacy_elmo.models import find
from spacy_elmo.output import msg, write_json
from spacy_elmo.text import BOS_ID, EOS_ID, open_corpus

Sentences = list[list[str]]
Run = Callable[[], float]  # does some work, and returns how many units it was

MADE_UP_WORDS = 50_000
SENTENCE_TOKENS = 20  # of made-up text, and of the sentences whose latency is measured
LATENCY_RUNS = 20

# -- what is read, and by which model ---------------------------------------------


def load_model(name: str) -> BiLM:
    """Return a model by its folder or shipped name, or a random one of a published
    size, whose token vectors differ from each other as those of trained models do: the
    kernel of a single sentence is chosen by that. Raises as `BiLM.load`."""
    if name not in PUBLISHED:
        return BiLM.load(find(name))
    bilm = BiLM.random(PUBLISHED[name])
    bias_H = bilm.token_encoder.get_parameter("projection_bias")
    with torch.no_grad():
        bias_H.sub_(bilm.token_vectors(made_up_words(1000)).mean(dim=0))
    return bilm


def read_sentences(folder: Path | None, n_tokens: int) -> Sentences:
    """Return the first sentences of a prepared text, or of made-up text."""
    if folder is None:
        return made_up_sentences(made_up_words(MADE_UP_WORDS), n_tokens)
    corpus = open_corpus(folder)
    sentences: Sentences = []
    for i in corpus.forward.read(0, n_tokens).tolist():
        if i == BOS_ID:
            sentences.append([])
        elif i != EOS_ID:
            sentences[-1].append(corpus.words[i])
    return sentences


def made_up_words(n_words: int, seed: int = 0) -> list[str]:
    """Return different words by falling frequency, as long as those of English:
    frequent ones are short."""
    rng = np.random.default_rng(seed)
    mean = 3.0 + 0.9 * np.log10(np.arange(2 * n_words + 100) + 1)  # some are alike
    lengths = np.clip(rng.normal(mean, 2), 1, 20).astype(int)
    ends = np.cumsum(lengths)
    letters = rng.integers(97, 123, int(ends[-1]), dtype=np.uint8).tobytes().decode()
    words = (letters[end - n : end] for end, n in zip(ends, lengths))
    return list(dict.fromkeys(words))[:n_words]


def made_up_sentences(words: Sequence[str], n_tokens: int, seed: int = 0) -> Sentences:
    """Return sentences of 20 tokens in which words are as often new as in English:
    log-uniform in their rank."""
    random = np.random.default_rng(seed).random(n_tokens - n_tokens % SENTENCE_TOKENS)
    ranks = np.minimum(np.exp(random * np.log(len(words) + 1)) - 1, len(words) - 1)
    rows = ranks.astype(int).reshape(-1, SENTENCE_TOKENS)
    return [[words[rank] for rank in row] for row in rows]


def precisions(device: str = "cpu") -> list[str]:
    """Return the precisions that a device has instructions for."""
    found: list[str] = []
    for precision in PRECISIONS:
        try:
            weight = torch.empty(0, device=device)
            check_precision(precision, dispatch_key_of(weight, precision))
        except ValueError:
            continue
        found.append(precision)
    return found


def encoders(bilm: BiLM) -> dict[str, BiLM]:
    """Return copies of a model that differ in settings: "cold" keeps no token vectors,
    "warm" those of all tokens, the others are cold ones of lower precision."""
    found = {}
    for name in ("cold", "warm", *precisions(bilm.device.type)[1:]):
        found[name] = copy.deepcopy(bilm)
        found[name].token_cache = TokenCache(1 << 20 if name == "warm" else 0)
        if name not in ("cold", "warm"):
            found[name].set_precision(name)  # type: ignore[arg-type]
    return found


def encode_all(bilm: BiLM, sentences: Sentences, batch_size: int) -> float:
    """Encode sentences in batches. Returns the number of their tokens."""
    for start in range(0, len(sentences), batch_size):
        bilm.encode(sentences[start : start + batch_size])
    return float(sum(map(len, sentences)))


@contextmanager
def on_threads(n: int) -> Iterator[None]:
    """Let torch compute with n threads inside."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# -- the clock --------------------------------------------------------------------


def in_turn(
    runs: Mapping[str, Run], rounds: int, *, warm_up: bool = True
) -> dict[str, float]:
    """Return units a second of each run: the median of rounds in which all have their
    turn, so that other work on the machine slows all of them alike. One round more is
    made first to warm up, and not counted."""
    speeds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(-warm_up, rounds):
        for name, run in runs.items():
            seconds, units = timed(run)
            if number >= 0:
                speeds[name].append(units / seconds)
    return {name: statistics.median(found) for name, found in speeds.items()}


def timed(run: Run) -> tuple[float, float]:
    """Return the seconds that a run takes, and its units. Where a GPU is in use, they
    are from one event of its own to another, with no other work waiting before."""
    if not torch.cuda.is_initialized():
        started = time.perf_counter()
        units = run()
        return time.perf_counter() - started, units
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    units = run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1000, units


def single_sentences(sentences: Sentences) -> list[Sentences]:
    """Return batches of one sentence of 20 tokens."""
    words = [word for sentence in sentences for word in sentence]
    words *= -(-SENTENCE_TOKENS // len(words))
    starts = range(0, len(words) - SENTENCE_TOKENS + 1, SENTENCE_TOKENS)
    return [[words[i : i + SENTENCE_TOKENS]] for i in starts][:LATENCY_RUNS]


def latency(bilms: Mapping[str, Any], sentences: Sentences) -> dict[str, float]:
    """Return milliseconds (median and 95th percentile) of sentences of 20 tokens, read
    one by one, by all models in turn."""
    single = single_sentences(sentences)
    for name, bilm in bilms.items():
        for sentence in single if name == "warm" else single[:2]:
            bilm.encode(sentence)
    times: dict[str, list[float]] = {name: [] for name in bilms}
    for sentence in single:
        for name, bilm in bilms.items():
            started = time.perf_counter()
            bilm.encode(sentence)  # whose arrays are on the host: no GPU is at work
            times[name].append(1000 * (time.perf_counter() - started))
    found = {name: statistics.median(ms) for name, ms in times.items()}
    rank = math.ceil(0.95 * len(single)) - 1
    tail = {f"{name}, p95": sorted(ms)[rank] for name, ms in times.items()}
    return found | tail


def machine() -> str:
    """Return the hardware and versions that a figure was measured with, and the most
    memory that was taken of a GPU."""
    gpu = ""
    if torch.cuda.is_initialized():
        peak = torch.cuda.max_memory_allocated() / (1 << 30)
        gpu = f"{torch.cuda.get_device_name()} ({peak:.1f} GiB taken), "
    return (
        f"{gpu}{describe_cpu()}, {os.cpu_count()} cores, {torch.get_num_threads()} "
        f"threads, torch {torch.__version__}, Python {platform.python_version()}"
    )


def show(tables: Mapping[str, Sequence[Mapping[str, Any]]], as_json: bool) -> None:
    """Print tables, each a list of rows by column, and what they were measured on."""
    if as_json:
        write_json({**tables, "machine": machine()})
        return
    for title, rows in tables.items():
        msg.divider(title)
        cells = [[_cell(value) for value in row.values()] for row in rows]
        msg.table(cells, header=list(rows[0]), divider=True)
    msg.info(machine())


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return "-" if value is None else str(value)
