"""Tokens a second from sentences to layers, and what a single sentence takes.

Shapes: C cells, H projection, S filters.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from .. import shipped
from ..bilm.bilm import BiLM
from ..bilm.token_cache import TokenCache
from ..pretrain.corpus import BOS_ID, EOS_ID, Corpus
from . import textbook
from .sizes import SIZES
from .timing import in_turn, machine, matrix_peak, memory_in_use

Sentences = list[list[str]]
SHIPPED = "shipped"
LATENCY_TOKENS = 20
LATENCY_RUNS, WARM_UP = 40, 3


def make_bilm(size: str) -> BiLM:
    if size == SHIPPED:
        return BiLM.load(shipped.PATH)
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


def encoder_runs(
    bilm: BiLM, sentences: Sentences, batch_size: int
) -> dict[str, Callable[[], float]]:
    """What is measured, each over all sentences; returns tokens. cold: no vector is
    known from an earlier batch; warm: all are. sorted: batches of like length."""
    n_tokens = float(sum(map(len, sentences)))
    by_length = sorted(sentences, key=len)
    warm = TokenCache(10 * len(sentences) * LATENCY_TOKENS)

    def ours(text: Sentences, cache: TokenCache) -> Callable[[], float]:
        def run() -> float:
            bilm.token_cache = cache
            for batch in batches(text, batch_size):
                bilm.encode(batch)
            return n_tokens

        return run

    def theirs(text: Sentences) -> Callable[[], float]:
        def run() -> float:
            for batch in batches(text, batch_size):
                textbook.vectors(bilm, batch)
            return n_tokens

        return run

    return {
        "cold": ours(sentences, TokenCache(0)),
        "warm": ours(sentences, warm),
        "textbook": theirs(sentences),
        "cold, sorted": ours(by_length, TokenCache(0)),
        "textbook, sorted": theirs(by_length),
    }


def latencies(bilm: BiLM, sentences: Sentences) -> dict[str, dict[str, float]]:
    """Milliseconds of single sentences of 20 tokens, one after the other: median and
    95th percentile."""
    words = [word for sentence in sentences for word in sentence]
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
            "p95": statistics.quantiles(found, n=20)[-1],
        }
        for name, found in times.items()
    }


def flops_a_token(bilm: BiLM, sentences: Sentences, batch_size: int) -> float:
    """FLOP of a token's products: of the LSTMs, boundaries included, and of the
    token encoder for the distinct words of each batch, trimmed to the longest."""
    sizes = bilm.config
    H, C, S = sizes.projection_dim, sizes.hidden_dim, sizes.n_filters
    lstm = 2 * 2.0 * sizes.n_layers * (2 * H * 4 * C + C * H)
    total = n_tokens = 0.0
    for batch in batches(sentences, batch_size):
        words = list({word for sentence in batch for word in sentence})
        length = bilm.trim(bilm.character_ids(words)).shape[1]
        word = 2.0 * (2 * S * S * sizes.n_highway + S * H)
        for width, n in sizes.filters:
            word += 2.0 * (length - width + 1) * width * sizes.char_dim * n
        n_batch = sum(map(len, batch))
        total += len(words) * word + (n_batch + 2 * len(batch)) * lstm
        n_tokens += n_batch
    return total / n_tokens


def benchmark(
    sizes: Sequence[str],
    corpus: Corpus,
    *,
    batch_size: int = 64,
    n_tokens: int = 10_000,
    rounds: int = 3,
    tell: Callable[[str], object] = lambda text: None,
) -> dict[str, Any]:
    """RETURNS: for every size tokens/s, latencies, share of the peak of a large product
    measured in the same run, and growth of memory in a batch, bytes."""
    device = torch.device("cpu")
    sentences = sentences_of(corpus, n_tokens)
    results = {}
    for size in sizes:
        tell(size)
        bilm = make_bilm(size)
        before = memory_in_use(device)
        bilm.token_cache = TokenCache(0)
        bilm.encode(sentences[:batch_size])
        growth = memory_in_use(device) - before
        speeds = in_turn(
            encoder_runs(bilm, sentences, batch_size), rounds, device, tell
        )
        peak = matrix_peak(device)
        floor = peak / flops_a_token(bilm, sentences, batch_size)
        results[size] = {
            "tokens_per_second": speeds,
            "latency_ms": latencies(bilm, sentences),
            "share_of_peak": speeds["cold"] / floor,
            "matrix_peak_flops": peak,
            "memory_growth_bytes": growth,
        }
    return {
        "machine": machine(device),
        "batch_size": batch_size,
        "sentences": len(sentences),
        "tokens": sum(map(len, sentences)),
        "rounds": rounds,
        "results": results,
    }
