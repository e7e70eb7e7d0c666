"""Speed and memory as sentences, batches, vocabularies and pipelines grow."""

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import typer

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.token_cache import CACHE_WORDS, TokenCache

from .pipe import make_pipeline, texts_of
from .speed import (
    Run,
    Sentences,
    in_turn,
    load_model,
    made_up_sentences,
    made_up_words,
    on_threads,
    show,
)
from .timing import MODEL, memory_in_use

CPU = torch.device("cpu")
LENGTHS = (5, 10, 20, 40, 80, 160, 320)
BATCHES = (1, 4, 16, 64, 256)
VOCABULARIES = (100, 1_000, 10_000, 100_000)
LISTENERS = (0, 1, 2, 4, 8)
DOCS = (1, 10, 100, 1_000, 10_000, 100_000)
DOC_WORDS = 20
LOOK_EVERY = 256  # Docs from one look at the memory to the next

Rows = list[dict[str, Any]]


def cut(words: Sequence[str], length: int) -> Sentences:
    """Return sentences of one length."""
    return [
        list(words[i : i + length]) for i in range(0, len(words) - length + 1, length)
    ]


def by_length(bilm: BiLM, words: list[str], rounds: int) -> Rows:
    """Measure sentences of one length, of known words, batched by `encode`."""
    bilm.token_cache = TokenCache(len(words))
    return _measure(bilm, "tokens", {n: [cut(words, n)] for n in LENGTHS}, rounds)


def by_batch(bilm: BiLM, words: list[str], rounds: int) -> Rows:
    """Measure sentences of 20 known words, so many at once."""
    bilm.token_cache = TokenCache(len(words))
    sentences = cut(words, DOC_WORDS)
    batches = {
        n: [sentences[i : i + n] for i in range(0, len(sentences), n)] for n in BATCHES
    }
    return _measure(bilm, "sentences", batches, rounds)


def by_vocabulary(bilm: BiLM, n_tokens: int, rounds: int) -> Rows:
    """Measure made-up text with so many distinct words, none of them known at first."""
    texts = {}
    for n in VOCABULARIES:
        sentences = made_up_sentences(made_up_words(n), n_tokens)
        texts[len({word for sentence in sentences for word in sentence})] = [sentences]
    return _measure(bilm, "distinct words", texts, rounds, TokenCache(CACHE_WORDS))


def _measure(
    bilm: BiLM,
    what: str,
    batches_of: Mapping[int, list[Sentences]],
    rounds: int,
    emptied: TokenCache | None = None,
) -> Rows:
    """Measure each text. emptied: a cache to use that begins empty for every text."""

    def encode(batches: list[Sentences]) -> float:
        if emptied is not None:
            emptied.clear()
            bilm.token_cache = emptied
        for batch in batches:
            bilm.encode(batch)
        return float(sum(len(s) for batch in batches for s in batch))

    runs = {str(n): partial(encode, batches) for n, batches in batches_of.items()}
    speeds = in_turn(runs, rounds)
    return [{what: int(n), "tokens/s": speed} for n, speed in speeds.items()]


def by_listeners(bilm: BiLM, texts: list[str], rounds: int) -> Rows:
    """Measure `nlp.pipe` with so many taggers and ners that share the biLM."""

    def pipe(nlp: Any) -> float:
        return float(sum(len(doc) for doc in nlp.pipe(texts)))

    runs: dict[str, Run] = {
        str(n): partial(pipe, make_pipeline(bilm, listeners=n)) for n in LISTENERS
    }
    speeds = in_turn(runs, rounds)
    return [{"listeners": int(n), "words/s": speed} for n, speed in speeds.items()]


def by_docs(bilm: BiLM, text: str, most: int) -> Rows:
    """Measure words/s, and the most memory in use, while Docs go through `nlp.pipe`
    with a tagger and a ner and are dropped: memory is to stay the same. The first row
    is of what is in use before."""
    nlp = make_pipeline(bilm)
    rows: Rows = [{"Docs": 0, "words/s": None, "MB": memory_in_use(CPU) / (1 << 20)}]
    for n in (n for n in DOCS if n <= most):
        gc.collect()
        started, highest, words = time.perf_counter(), 0, 0
        for number, doc in enumerate(nlp.pipe(_repeated(text, n))):
            words += len(doc)
            if number % LOOK_EVERY == 0:
                highest = max(highest, memory_in_use(CPU))
        speed = words / (time.perf_counter() - started)
        highest = max(highest, memory_in_use(CPU))
        rows.append({"Docs": n, "words/s": speed, "MB": highest / (1 << 20)})
    return rows


def _repeated(text: str, n: int) -> Iterator[str]:
    """With one new word in each, for the vocabulary to grow by."""
    return (f"{text} n{number}x" for number in range(n))


def benchmark(
    model: str,
    *,
    n_tokens: int = 20_000,
    docs: int = DOCS[-1],
    doc_words: int = DOC_WORDS,
    rounds: int = 3,
) -> dict[str, Rows]:
    """Return each of the above, on one thread. docs: most of them, of doc_words."""
    bilm = load_model(model)
    sentences = made_up_sentences(made_up_words(20_000), n_tokens)
    words = [word for sentence in sentences for word in sentence]
    with on_threads(1):
        return {
            "by tokens of a sentence": by_length(bilm, words, rounds),
            "by sentences of a batch": by_batch(bilm, words, rounds),
            "by distinct words, all of them new": by_vocabulary(bilm, n_tokens, rounds),
            "by listeners": by_listeners(bilm, texts_of([words], DOC_WORDS), rounds),
            "by Docs": by_docs(bilm, " ".join(words[:doc_words]), docs),
        }


def main(
    model: str = typer.Option("en_elmo_sm", help=MODEL),
    tokens: int = typer.Option(20_000, help="Tokens of the made-up text"),
    docs: int = typer.Option(100_000, help="Docs at most"),
    doc_words: int = typer.Option(20, help="Words of each of them"),
    rounds: int = typer.Option(3, help="Times each is measured, in turn"),
    as_json: bool = typer.Option(False, "--json", help="Print JSON"),
) -> None:
    found = benchmark(
        model, n_tokens=tokens, docs=docs, doc_words=doc_words, rounds=rounds
    )
    show(found, as_json)


if __name__ == "__main__":
    typer.run(main)
