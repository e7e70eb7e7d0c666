"""What speed and memory do as texts, batches and pipelines grow."""

import gc
import time
from collections.abc import Iterator
from typing import Any

import torch

from spacy_elmo.bilm.bilm import CACHE_WORDS, BiLM
from spacy_elmo.bilm.token_cache import TokenCache

from .inference import CPU, Sentences, Tell, make_bilm
from .pipe import make_pipeline, texts_of
from .sizes import zipf_text
from .timing import in_turn, machine, memory_in_use

LENGTHS = (5, 10, 20, 40, 80, 160, 320)
BATCHES = (1, 4, 16, 64, 256)
VOCABULARIES = (100, 1_000, 10_000, 100_000)
LISTENERS = (0, 1, 2, 4, 8)
DOCS = (1, 10, 100, 1_000, 10_000, 100_000)
DOC_WORDS = 20
LOOK_EVERY = 256  # Docs from one look at the memory to the next


def _cut(words: list[str], length: int) -> Sentences:
    return [words[i : i + length] for i in range(0, len(words) - length + 1, length)]


def by_length(bilm: BiLM, words: list[str], rounds: int) -> dict[int, float]:
    """Tokens/s of sentences of one length, known words, batched by `encode`."""
    bilm.token_cache = TokenCache(len(words))
    return _speeds(bilm, {n: [_cut(words, n)] for n in LENGTHS}, rounds)


def by_batch(bilm: BiLM, words: list[str], rounds: int) -> dict[int, float]:
    """Tokens/s of sentences of 20 known words, so many at once."""
    bilm.token_cache = TokenCache(len(words))
    sentences = _cut(words, DOC_WORDS)
    grouped = {
        n: [sentences[i : i + n] for i in range(0, len(sentences), n)] for n in BATCHES
    }
    return _speeds(bilm, grouped, rounds)


def by_vocabulary(bilm: BiLM, n_tokens: int, rounds: int) -> dict[int, float]:
    """Tokens/s of made-up text with so many distinct words in it, each text with a
    cache that knows none of them at first."""
    texts = {}
    for n in VOCABULARIES:
        corpus = zipf_text(n + 3, n_tokens)
        ids = [i for i in corpus.forward.read(0, n_tokens).tolist() if i > 2]
        texts[len(set(ids))] = [_cut([corpus.words[i] for i in ids], DOC_WORDS)]
    return _speeds(bilm, texts, rounds, TokenCache(CACHE_WORDS))


def _speeds(
    bilm: BiLM,
    batches_of: dict[int, list[Sentences]],
    rounds: int,
    emptied: TokenCache | None = None,
) -> dict[int, float]:
    """emptied: a cache to use that begins empty for every text."""

    def encode(batches: list[Sentences]) -> float:
        if emptied is not None:
            emptied.clear()
            bilm.token_cache = emptied
        for batch in batches:
            bilm.encode(batch)
        return float(sum(len(s) for batch in batches for s in batch))

    runs = {
        str(n): lambda batches=batches: encode(batches)
        for n, batches in batches_of.items()
    }
    return {int(n): speed for n, speed in in_turn(runs, rounds, CPU).items()}


def by_listeners(bilm: BiLM, texts: list[str], rounds: int) -> dict[int, float]:
    """Words/s of `nlp.pipe` with so many taggers and ners that share the biLM."""

    def pipe(nlp: Any) -> float:
        return float(sum(len(doc) for doc in nlp.pipe(texts)))

    runs = {}
    for n in LISTENERS:
        nlp = make_pipeline(bilm, listeners=n)
        runs[str(n)] = lambda nlp=nlp: pipe(nlp)
    return {int(n): speed for n, speed in in_turn(runs, rounds, CPU).items()}


def by_docs(
    bilm: BiLM, text: str, most: int, tell: Tell = lambda text: None
) -> list[dict[str, float]]:
    """Words/s, and the most memory in use, bytes, while Docs go through `nlp.pipe` with
    a tagger and a ner and are dropped: memory_bytes is to stay the same. The first line
    is of what is in use before."""
    found: list[dict[str, float]] = []
    nlp = make_pipeline(bilm)
    found.append({"docs": 0, "memory_bytes": memory_in_use(CPU)})
    for n in DOCS:
        if n > most:
            break
        gc.collect()
        tell(f"{n} Docs")
        started, highest, words = time.perf_counter(), 0, 0
        for number, doc in enumerate(nlp.pipe(_repeated(text, n))):
            words += len(doc)
            if number % LOOK_EVERY == 0:
                highest = max(highest, memory_in_use(CPU))
        speed = words / (time.perf_counter() - started)
        highest = max(highest, memory_in_use(CPU))
        found.append({"docs": n, "words_per_second": speed, "memory_bytes": highest})
    return found


def _repeated(text: str, n: int) -> Iterator[str]:
    """With one new word in each, for the vocabulary to grow by."""
    return (f"{text} n{number}x" for number in range(n))


def benchmark(
    size: str,
    *,
    n_tokens: int = 20_000,
    docs: int = DOCS[-1],
    doc_words: int = DOC_WORDS,
    rounds: int = 3,
    tell: Tell = lambda text: None,
) -> dict[str, Any]:
    """RETURNS: each of the above, on one thread. docs: most of them, of doc_words."""
    bilm = make_bilm(size)
    corpus = zipf_text(20_000, n_tokens)
    ids = [i for i in corpus.forward.read(0, n_tokens).tolist() if i > 2]
    words = [corpus.words[i] for i in ids]
    found: dict[str, Any] = {"size": size, "rounds": rounds}
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        found["machine"] = machine(CPU)
        tell("sentence lengths")
        found["sentence_length"] = by_length(bilm, words, rounds)
        tell("batches")
        found["batch"] = by_batch(bilm, words, rounds)
        tell("vocabularies")
        found["vocabulary"] = by_vocabulary(bilm, n_tokens, rounds)
        tell("listeners")
        texts = texts_of([words], DOC_WORDS)
        found["listeners"] = by_listeners(bilm, texts, rounds)
        found["docs"] = by_docs(bilm, " ".join(words[:doc_words]), docs, tell)
    finally:
        torch.set_num_threads(before)
    return found
