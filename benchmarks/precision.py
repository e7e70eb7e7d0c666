"""What fewer bits cost a trained pipeline: errors of its vectors, and its scores."""

from pathlib import Path
from typing import Any

import numpy as np
import spacy
from spacy.training import Corpus

from spacy_elmo.bilm.kernels.products import PRECISIONS, check_precision

from .inference import CPU, Tell
from .timing import machine

SCORES = ("tag_acc", "pos_acc", "ents_f", "dep_las")


def benchmark(
    pipeline: Path, corpus: Path, tell: Tell = lambda text: None
) -> dict[str, Any]:
    """Evaluate a pipeline on a .spacy file in every precision of this processor.

    RETURNS: for each the pipeline's scores, and of the layers that its `elmo` gives
    the mean and the largest difference from float32, in units of their root mean
    square.
    """
    found: dict[str, Any] = {}
    exact: list[Any] = []
    for precision in PRECISIONS:
        try:
            check_precision(precision, CPU)
        except ValueError:
            continue
        tell(precision)
        nlp = spacy.load(
            pipeline, config={"components.elmo.model.precision": precision}
        )
        examples = list(Corpus(corpus)(nlp))
        elmo: Any = nlp.get_pipe("elmo")
        docs = [example.reference for example in examples]
        layers = [layers for _, layers in elmo.predict(docs)]
        exact = exact or layers
        errors = [abs(a - b) for a, b in zip(layers, exact)]
        n = sum(error.size for error in errors)
        rms = np.sqrt(sum(float((a * a).sum()) for a in exact) / n)
        scores = nlp.evaluate(examples)
        found[precision] = {
            "mean_error": sum(float(error.sum()) for error in errors) / n / rms,
            "max_error": max(float(error.max(initial=0)) for error in errors) / rms,
            "scores": {name: scores[name] for name in SCORES if scores.get(name)},
        }
    return {"machine": machine(CPU), "precisions": found}
