"""`spacy elmo benchmark`: the speed of each setting, and what lower precision costs."""

from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import typer
from tqdm import tqdm

from .group import AsJson, app, clear_errors

MODEL = "Model folder, a name that ships, or a published size: small, medium, original"
DEVICE = "cpu, cuda, or the number of a GPU: cuda:1"
TEXT = "A folder that 'prepare' made; made-up text if none is given"
SCORES = ("tag_acc", "pos_acc", "ents_f", "dep_las")

benchmark_app = typer.Typer(
    help="Measure the speed and the quality of settings.", no_args_is_help=True
)
app.add_typer(benchmark_app, name="benchmark")


@benchmark_app.command("inference")
@clear_errors()
def inference_cli(
    text: Path | None = typer.Argument(None, help=TEXT),
    model: list[str] = typer.Option(
        ["small", "medium", "original", "en_elmo_sm"], "--model", "--size", help=MODEL
    ),
    batch_size: list[int] = typer.Option([1, 32, 64, 128], help="Sentences at once"),
    threads: list[int] = typer.Option([1, 2], help="CPU threads"),
    tokens: int = typer.Option(4_000, help="Tokens of the text that are read"),
    rounds: int = typer.Option(3, help="Times each setting is measured, in turn"),
    device: str = typer.Option("cpu", help=DEVICE),
    as_json: AsJson = False,
) -> None:
    """Measure tokens/s from sentences to layers by model, threads, batch size and
    precision, and the latency of single sentences (cold: no token was read before)."""
    from ..speed import (
        encode_all,
        encoders,
        in_turn,
        latency,
        load_model,
        read_sentences,
        show,
        torch_threads,
    )

    sentences = read_sentences(text, tokens)
    speeds: list[dict[str, Any]] = []
    latencies: list[dict[str, Any]] = []
    for name, n in tqdm(list(product(model, threads)), leave=False):
        settings: dict[str, Any] = {"model": name, "threads": n}
        with torch_threads(n):
            bilms = encoders(load_model(name).to(device))
            for size in batch_size:
                runs = {
                    kind: partial(encode_all, bilm, sentences, size)
                    for kind, bilm in bilms.items()
                }
                speeds.append({**settings, "batch": size, **in_turn(runs, rounds)})
            latencies.append({**settings, **latency(bilms, sentences)})
    show({"tokens/s": speeds, "milliseconds of 20 tokens": latencies}, as_json)


@benchmark_app.command("precision")
@clear_errors()
def precision_cli(
    pipeline: Path = typer.Argument(..., help="Trained pipeline with an elmo"),
    corpus: Path = typer.Argument(..., help="Annotated .spacy file"),
    as_json: AsJson = False,
) -> None:
    """Measure what half precision and 8 bits cost a trained pipeline: errors of its
    vectors in units of their root mean square, and its scores."""
    from ..speed import show

    show({"precision": compare_precisions(pipeline, corpus)}, as_json)


def compare_precisions(pipeline: Path, corpus: Path) -> list[dict[str, Any]]:
    """Return a row for each precision of this processor: the mean and the largest
    difference of the layers of a pipeline's `elmo` from float32, in units of their root
    mean square, and the pipeline's scores on a .spacy file."""
    import numpy as np
    import spacy
    from spacy.training import Corpus

    from ..speed import precisions

    rows: list[dict[str, Any]] = []
    exact: Any = None
    for precision in precisions():
        config = {"components.elmo.model.precision": precision}
        nlp = spacy.load(pipeline, config=config)
        examples = list(Corpus(corpus)(nlp))
        elmo: Any = nlp.get_pipe("elmo")
        docs = elmo.pipe(example.reference for example in examples)
        layers = np.concatenate([doc._.elmo.layers.ravel() for doc in docs])
        exact = layers if exact is None else exact
        errors = abs(layers - exact) / np.sqrt(np.mean(exact**2))
        row = {"precision": precision, "mean error": float(errors.mean())}
        row["largest error"] = float(errors.max())
        scores = nlp.evaluate(examples)
        rows.append(row | {name: scores[name] for name in SCORES if scores.get(name)})
    return rows
