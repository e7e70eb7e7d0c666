"""Words a second of an epoch of a tagger, after the first: encoded each time, with
layers from the cache, and on static vectors."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import spacy
import typer
from spacy.language import Language
from spacy.ml.staticvectors import StaticVectors
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import minibatch, registry
from spacy.vectors import Vectors
from thinc.api import Model, chain
from thinc.layers import ragged2list
from tqdm import tqdm

from spacy_elmo.bilm.bilm import BiLM

from .pipe import TAGS, add_elmo
from .speed import (
    Run,
    Sentences,
    in_turn,
    load_model,
    on_threads,
    read_sentences,
    show,
)
from .timing import MODEL, TEXT

BATCH, STATIC_WIDTH = 64, 300


@registry.architectures("benchmarks.StaticVectors.v1")
def static_vectors() -> Model[Any, Any]:
    """Return static vectors, and one linear layer to 128 columns."""
    return chain(StaticVectors(nO=128), ragged2list())


def make_tagger(bilm: BiLM | None, sentences: Sentences, cache: Any) -> Language:
    """Return a tagger on a frozen biLM or, without one, on random static vectors."""
    nlp = spacy.blank("en")
    tok2vec: dict[str, Any] = {"@architectures": "spacy-elmo.ElmoListener.v1"}
    if bilm is None:
        words = sorted({word for sentence in sentences for word in sentence})
        data = np.random.default_rng(0).normal(size=(len(words), STATIC_WIDTH))
        nlp.vocab.vectors = Vectors(data=data.astype("float32"), keys=words)
        tok2vec = {"@architectures": "benchmarks.StaticVectors.v1"}
    else:
        add_elmo(nlp, bilm)
    model = {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}
    nlp.add_pipe("tagger", config={"model": model})
    nlp.initialize(lambda: _examples(nlp, sentences))
    if bilm is not None:
        elmo: Any = nlp.get_pipe("elmo")
        elmo.use_layer_cache(cache, 1 << 14)
    return nlp


def _examples(nlp: Language, sentences: Sentences) -> list[Example]:
    return [
        Example.from_dict(
            Doc(nlp.vocab, words=sentence),
            {"tags": [TAGS[len(word) % len(TAGS)] for word in sentence]},
        )
        for sentence in sentences
    ]


def epoch(nlp: Language, sentences: Sentences) -> Run:
    def run() -> float:
        for batch in minibatch(_examples(nlp, sentences), BATCH):
            nlp.update(batch, annotates=[])
        return float(sum(map(len, sentences)))

    return run


def benchmark(
    models: Sequence[str], sentences: Sentences, *, rounds: int = 3
) -> list[dict[str, Any]]:
    """Return a row for every model: words/s of an epoch after the first, on one
    thread."""
    rows = []
    with on_threads(1):
        for name in tqdm(models, leave=False):
            rows.append({"model": name, **_epochs(load_model(name), sentences, rounds)})
    return rows


def _epochs(bilm: BiLM, sentences: Sentences, rounds: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        taggers = {
            "no cache": make_tagger(bilm, sentences, None),
            "memory": make_tagger(bilm, sentences, "memory"),
            "file": make_tagger(bilm, sentences, Path(folder) / "layers"),
            "static vectors": make_tagger(None, sentences, None),
        }
        runs = {name: epoch(nlp, sentences) for name, nlp in taggers.items()}
        return in_turn(runs, rounds)


def main(
    text: Path | None = typer.Argument(None, help=TEXT),
    model: list[str] = typer.Option(["small"], help=MODEL),
    tokens: int = typer.Option(8_000, help="Tokens of the text"),
    rounds: int = typer.Option(3, help="Times each is measured, in turn"),
    as_json: bool = typer.Option(False, "--json", help="Print JSON"),
) -> None:
    rows = benchmark(model, read_sentences(text, tokens), rounds=rounds)
    show({"words/s of an epoch": rows}, as_json)


if __name__ == "__main__":
    typer.run(main)
