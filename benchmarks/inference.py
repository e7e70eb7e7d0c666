"""Tokens a second from sentences to layers, and what a single sentence takes.

Shapes: C cells, H projection, S filters.
"""

import copy
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from spacy_elmo import models as shipped
from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.kernels.products import Precision, check_precision
from spacy_elmo.bilm.token_cache import TokenCache
from spacy_elmo.text.corpus import BOS_ID, EOS_ID, Corpus

from . import textbook
from .baselines import baselines
from .sizes import SIZES
from .timing import in_turn, machine, matrix_peak, memory_in_use

Sentences = list[list[str]]
Run = Callable[[], float]
Tell = Callable[[str], object]
SHIPPED = "shipped"
# What memory and the share of the peak are measured with.
BATCH_SIZE = 64
LATENCY_TOKENS = 20
LATENCY_RUNS, WARM_UP = 40, 3
CPU = torch.device("cpu")


def make_bilm(size: str) -> BiLM:
    if size == SHIPPED:
        return shipped.load(shipped.LANG)
    return BiLM.random(SIZES[size])


def sentences_of(corpus: Corpus, n_tokens: int) -> Sentences:
    """The first sentences of a text."""
    sentences: Sentences = []
    for i in corpus.forward.read(0, n_tokens).tolist():
        if i == BOS_ID:
            sentences.append([])
        elif i != EOS_ID:
            sentences[-1].append(corpus.words[i])
    return sentences


def batches(sentences: Sentences, size: int) -> Iterator[Sentences]:
    for start in range(0, len(sentences), size):
        yield sentences[start : start + size]


def n_tokens_of(sentences: Sentences) -> int:
    return sum(map(len, sentences))


def other_precisions(bilm: BiLM) -> dict[str, BiLM]:
    """The model in each precision but float32 that this processor has."""
    found: dict[str, BiLM] = {}
    fewer_bits: tuple[Precision, ...] = ("half", "int8")
    for precision in fewer_bits:
        try:
            check_precision(precision, CPU)
        except ValueError:
            continue
        found[precision] = copy.deepcopy(bilm).set_precision(precision)
    return found


def encoder_runs(
    bilm: BiLM, others: dict[str, BiLM], sentences: Sentences, batch_size: int
) -> dict[str, Run]:
    """What is measured, each over all sentences; returns tokens. cold: no vector is
    known from an earlier batch; warm: all are. sorted: batches of like length."""
    n_tokens = float(n_tokens_of(sentences))
    by_length = sorted(sentences, key=len)
    none, all_words = TokenCache(0), TokenCache(int(n_tokens) + 2)

    def ours(bilm: BiLM, text: Sentences, cache: TokenCache) -> Run:
        def run() -> float:
            bilm.token_cache = cache
            for batch in batches(text, batch_size):
                bilm.encode(batch)
            return n_tokens

        return run

    def theirs(text: Sentences) -> Run:
        def run() -> float:
            for batch in batches(text, batch_size):
                textbook.vectors(bilm, batch)
            return n_tokens

        return run

    runs = {
        "textbook": theirs(sentences),
        "cold": ours(bilm, sentences, none),
        "warm": ours(bilm, sentences, all_words),
        **{p: ours(other, sentences, none) for p, other in others.items()},
    }
    if batch_size > 1:
        runs["textbook, sorted"] = theirs(by_length)
        runs["cold, sorted"] = ours(bilm, by_length, none)
    return runs


def latencies(bilm: BiLM, sentences: Sentences) -> dict[str, dict[str, float]]:
    """Milliseconds of single sentences of 20 tokens, one after the other: median and
    95th percentile."""
    words = [word for sentence in sentences for word in sentence]
    words *= -(-LATENCY_TOKENS // len(words))
    single = [
        words[i * LATENCY_TOKENS : (i + 1) * LATENCY_TOKENS]
        for i in range(min(LATENCY_RUNS, len(words) // LATENCY_TOKENS))
    ]
    warm = TokenCache(len(words))
    bilm.token_cache = warm
    bilm.encode([words])
    times: dict[str, list[float]] = {"cold": [], "warm": [], "textbook": []}
    for number, sentence in enumerate([*single[:WARM_UP], *single]):
        for name, found in times.items():
            bilm.token_cache = warm if name == "warm" else TokenCache(0)
            started = time.perf_counter()
            if name == "textbook":
                textbook.vectors(bilm, [sentence])
            else:
                bilm.encode([sentence])
            if number >= WARM_UP:
                found.append(1000 * (time.perf_counter() - started))
    return {
        name: {
            "p50": statistics.median(found),
            "p95": sorted(found)[int(0.95 * len(found))],
        }
        for name, found in times.items()
    }


def flops_a_token(bilm: BiLM, sentences: Sentences, batch_size: int) -> float:
    """FLOP of a token's products: of the LSTMs, boundaries included, and of the
    token encoder for the distinct words of each batch, each of its own length."""
    sizes = bilm.config
    H, C, S = sizes.projection_dim, sizes.hidden_dim, sizes.n_filters
    lstm = 2 * 2.0 * sizes.n_layers * (2 * H * 4 * C + C * H)
    per_word = 2.0 * (2 * S * S * sizes.n_highway + S * H)
    per_window = 2.0 * sum(width * sizes.char_dim * n for width, n in sizes.filters)
    total = 0.0
    for batch in batches(sentences, batch_size):
        words = {word for sentence in batch for word in sentence}
        marks = 3  # of begin and end of a word, and one window of padding
        windows = sum(
            min(len(word.encode("utf-8", "replace")) + marks, sizes.max_characters)
            for word in words
        )
        total += len(words) * per_word + windows * per_window
        total += (n_tokens_of(batch) + 2 * len(batch)) * lstm
    return total / n_tokens_of(sentences)


def memory_growth(bilm: BiLM, sentences: Sentences) -> int:
    """Bytes that the process has grown by after its first batch."""
    before = memory_in_use(CPU)
    bilm.token_cache = TokenCache(0)
    bilm.encode(sentences[:BATCH_SIZE])
    return memory_in_use(CPU) - before


def benchmark(
    sizes: Sequence[str],
    corpus: Corpus,
    *,
    batch_sizes: Sequence[int] = (BATCH_SIZE,),
    threads: Sequence[int] = (1,),
    n_tokens: int = 10_000,
    rounds: int = 3,
    tell: Tell = lambda text: None,
) -> dict[str, Any]:
    """RETURNS: for every size, number of threads and batch size tokens/s; for every
    size and number of threads latencies; for every size the growth of memory, bytes,
    and the share of the peak of a large product, measured in the same run with the
    first number of threads. Of other models tokens/s too."""
    sentences = sentences_of(corpus, n_tokens)
    speeds: list[dict[str, Any]] = []
    models: dict[str, Any] = {}
    before = torch.get_num_threads()
    try:
        for size in sizes:
            torch.set_num_threads(threads[0])
            bilm = make_bilm(size)
            models[size] = {"memory_growth_bytes": memory_growth(bilm, sentences)}
            others = other_precisions(bilm)
            models[size]["latency_ms"] = {}
            for n in threads:
                torch.set_num_threads(n)
                for batch_size in batch_sizes:
                    where = {"size": size, "threads": n, "batch_size": batch_size}
                    tell(f"{size}, {n} threads, batches of {batch_size}")
                    runs = encoder_runs(bilm, others, sentences, batch_size)
                    found = in_turn(runs, rounds, CPU)
                    speeds.append({**where, "tokens_per_second": found})
                models[size]["latency_ms"][n] = latencies(bilm, sentences)
            torch.set_num_threads(threads[0])
            models[size]["share_of_peak"] = share_of_peak(bilm, sentences, rounds)
        tell("other models")
        torch.set_num_threads(threads[0])
        others_found = in_turn(baselines(sentences, BATCH_SIZE), rounds, CPU)
        return {
            "machine": machine(CPU),
            "sentences": len(sentences),
            "tokens": n_tokens_of(sentences),
            "rounds": rounds,
            "speeds": speeds,
            "models": models,
            "baselines": others_found,
        }
    finally:
        torch.set_num_threads(before)


def share_of_peak(bilm: BiLM, sentences: Sentences, rounds: int) -> float:
    bilm.token_cache = TokenCache(0)

    def run() -> float:
        for batch in batches(sentences, BATCH_SIZE):
            bilm.encode(batch)
        return float(n_tokens_of(sentences))

    speed = in_turn({"cold": run}, rounds, CPU)["cold"]
    return speed * flops_a_token(bilm, sentences, BATCH_SIZE) / matrix_peak(CPU)
