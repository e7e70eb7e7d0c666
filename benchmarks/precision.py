"""What lower precision costs a trained pipeline: errors of its vectors, and its scores.

python -m benchmarks.precision PIPELINE CORPUS.spacy
"""

from pathlib import Path
from typing import Any

import numpy as np
import spacy
import typer
from spacy.training import Corpus

from spacy_elmo.pipeline import Elmo

from .speed import precisions, show

SCORES = ("tag_acc", "pos_acc", "ents_f", "dep_las")


def compare_precisions(pipeline: str | Path, corpus: Path) -> list[dict[str, Any]]:
    """Return a row for each precision of this processor: the mean and the largest
    difference of the layers of a pipeline's `elmo` from float32, in units of their root
    mean square, and the pipeline's scores on a .spacy file."""
    rows: list[dict[str, Any]] = []
    exact: Any = None
    loaded = spacy.load(pipeline).components
    name = next(name for name, pipe in loaded if isinstance(pipe, Elmo))
    for precision in precisions():
        config = {f"components.{name}.model.precision": precision}
        nlp = spacy.load(pipeline, config=config)
        examples = list(Corpus(corpus)(nlp))
        elmo: Any = nlp.get_pipe(name)
        docs = elmo.pipe(example.reference for example in examples)
        layers = np.concatenate([doc._.elmo.layers.ravel() for doc in docs])
        exact = layers if exact is None else exact
        errors = abs(layers - exact) / np.sqrt(np.mean(exact**2))
        row = {"precision": precision, "mean error": float(errors.mean())}
        row["largest error"] = float(errors.max())
        scores = nlp.evaluate(examples)
        found = {name: scores.get(name) for name in SCORES}
        rows.append(row | {name: f for name, f in found.items() if f is not None})
    return rows


def main(
    pipeline: str = typer.Argument(..., help="Trained pipeline with an elmo"),
    corpus: Path = typer.Argument(..., help="Annotated .spacy file"),
    as_json: bool = typer.Option(False, "--json", help="Print JSON"),
) -> None:
    show({"precision": compare_precisions(pipeline, corpus)}, as_json)


if __name__ == "__main__":
    typer.run(main)
