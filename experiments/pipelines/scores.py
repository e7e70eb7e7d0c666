"""Scores of a pipeline on a test set: from raw text, and on the treebank's own tokens
and sentences; and how fast it is."""

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from spacy.scorer import PRFScore, Scorer
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from threadpoolctl import threadpool_limits

from benchmarks.speed import on_threads
from spacy_elmo.bilm.bilm import BiLM

from . import numpy_products  # noqa: F401  pipelines name it

Scores = dict[str, Any]


def read(path: Path, nlp: Language) -> list[Doc]:
    return list(DocBin().from_disk(path).get_docs(nlp.vocab))


def evaluate(nlp: Language, docs: Iterable[Doc], *, gold: bool) -> Scores:
    """Return spaCy's scores, and those by label of tags and parts of speech.

    Args:
        docs: The annotated ones.
        gold: Whether the pipeline gets their tokens and sentences, in place of raw text
            and the sentences that it finds itself.
    """
    docs = list(docs)
    given = [_words(nlp, doc) if gold else nlp.make_doc(doc.text) for doc in docs]
    with nlp.select_pipes(disable=["senter"] if gold else []):
        examples = [Example(*pair) for pair in zip(nlp.pipe(given), docs)]
        found = Scorer(nlp).score(examples)
    for attr in ("tag", "pos"):
        found[f"{attr}_per_type"] = _by_label(examples, f"{attr}_")
    return found


def _words(nlp: Language, doc: Doc) -> Doc:
    """Return an unannotated copy with the same tokens and sentences."""
    return Doc(
        nlp.vocab,
        words=[token.text for token in doc],
        spaces=[bool(token.whitespace_) for token in doc],
        sent_starts=[bool(token.is_sent_start) for token in doc],
    )


def _by_label(examples: Iterable[Example], attr: str) -> dict[str, dict[str, float]]:
    """Return precision, recall and F of every label of an attribute of tokens."""
    scores: dict[str, PRFScore] = defaultdict(PRFScore)
    for example in examples:
        found, true = (
            {(t.idx, t.idx + len(t), getattr(t, attr)) for t in doc}
            for doc in (example.predicted, example.reference)
        )
        for label in {row[2] for row in found | true}:
            some = [{row for row in rows if row[2] == label} for rows in (found, true)]
            scores[label].score_set(*some)
    return {label: score.to_dict() for label, score in sorted(scores.items())}


def speed(nlp: Language, docs: Sequence[Doc], rounds: int = 3) -> dict[str, float]:
    """Return words a second of one core: of `nlp.pipe` on the raw text, and of
    `BiLM.encode` on its tokens and sentences, measured in turns, medians."""
    texts = [doc.text for doc in docs]
    sentences = [[token.text for token in sent] for doc in docs for sent in doc.sents]
    bilm: BiLM | None = nlp.get_pipe("elmo").bilm if nlp.has_pipe("elmo") else None
    runs: dict[str, Callable[[], object]] = {"nlp.pipe": lambda: list(nlp.pipe(texts))}
    if bilm is not None:
        runs["BiLM.encode"] = lambda: bilm.encode(sentences)
    words = sum(map(len, sentences))
    seconds: dict[str, list[float]] = defaultdict(list)
    with on_threads(1), threadpool_limits(1):
        for _ in range(rounds):
            for name, run in runs.items():
                if bilm is not None:
                    bilm.token_cache.clear()
                started = time.perf_counter()
                run()
                seconds[name].append(time.perf_counter() - started)
    return {name: words / statistics.median(some) for name, some in seconds.items()}


def main(folder: Path, corpus: Path) -> None:
    """Print how fast a pipeline is."""
    nlp = spacy.load(folder)
    print(speed(nlp, read(corpus, nlp)))


if __name__ == "__main__":
    import typer

    typer.run(main)
