"""`spacy elmo benchmark`: the speed of each setting, and what lower precision costs."""

from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import typer
from tqdm import tqdm

from .group import AsJson, app, check_gpu, clear_errors

MODEL = "Model folder, a name that ships, or a published size: small, medium, original"
DEVICE = "cpu, cuda, or the number of a GPU: cuda:1"
TEXT = "A folder that 'prepare' made; made-up text if none is given"
# What is measured of words that were not seen before -> its precision
PRECISION_OF = {"cold": "float32", "half": "half"}
SCORES = ("tag_acc", "pos_acc", "ents_f", "dep_las")


@clear_errors()
def _check_device(name: str) -> str:
    """Return the name of a device that is there."""
    kind, _, number = name.partition(":")
    if kind == "cuda" and (number or "0").isdecimal():
        check_gpu(int(number or 0))
    elif name != "cpu":
        from ..errors import Errors

        raise ValueError(Errors.EL073.format(found=name, known="cpu, cuda, cuda:1"))
    return name


benchmark_app = typer.Typer(
    help="Measure the speed and the quality of settings.", no_args_is_help=True
)
app.add_typer(benchmark_app, name="benchmark")


@benchmark_app.command("inference")
@clear_errors()
def inference_cli(
    text: Path | None = typer.Argument(None, help=TEXT),
    model: list[str] = typer.Option(
        ["small", "medium", "original"], "--model", "--size", help=MODEL
    ),
    batch_size: list[int] = typer.Option([64], min=1, help="Sentences at once"),
    threads: list[int] = typer.Option([1, 2], min=1, help="CPU threads"),
    tokens: int = typer.Option(1_280, min=20, help="Tokens of the text that are read"),
    rounds: int = typer.Option(2, min=1, help="Times each is measured, in turn"),
    device: str = typer.Option("cpu", help=DEVICE, callback=_check_device),
    as_json: AsJson = False,
) -> None:
    """Measure this machine in two minutes: the speed of large matrix multiplications;
    tokens/s from sentences to layers by model, threads, batch size and precision (cold:
    no token was read before), and their shares of that speed; single sentences, with
    the time that they take at least, and a few. Print what to choose."""
    from .speed import read_sentences, show

    sentences = read_sentences(text, tokens)
    peaks = _peaks(device)
    tables: dict[str, list[dict[str, Any]]] = {
        "GFLOP/s of large multiplications, one thread": [
            {name: peak / 1e9 for name, peak in peaks.items()}
        ],
        "tokens/s": [],
        "milliseconds of 20 tokens": [],
        "milliseconds of a few sentences": [],
        "to choose": [],
    }
    runs = list(product(model, threads))
    with tqdm(runs, leave=False, disable=as_json) as progress:
        for name, n in progress:
            progress.set_description(f"{name}, {n} threads")
            found = _measure(name, n, sentences, batch_size, rounds, device, peaks)
            for title, rows in zip(list(tables)[1:4], found):
                tables[title] += rows
    if device == "cpu":
        tables["instructions"] = [_instructions()]
    tables["to choose"] = [_to_choose(name, tables) for name in model]
    show(tables, as_json)


def _peaks(device: str) -> dict[str, float]:
    """Return FLOP/s of a large multiplication in each precision, on one thread."""
    import torch

    from .speed import on_threads, precisions
    from .speed_limits import matrix_peak

    on = torch.device(device)
    names = precisions(device) if device == "cpu" else ["float32"]
    with on_threads(1):
        return {name: matrix_peak(on, precision=name) for name in names}  # type: ignore[arg-type]


def _instructions() -> dict[str, str]:
    """Return the instructions of the processor for torch, and for the C library."""
    from ..bilm.kernels import describe_library
    from ..machine import instructions

    return {"torch": instructions(), "library": describe_library()[0]}


def _measure(
    name: str,
    n_threads: int,
    sentences: list[list[str]],
    batch_sizes: list[int],
    rounds: int,
    device: str,
    peaks: dict[str, float],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Return rows of tokens/s for each batch size, with the shares of the large
    multiplication on as many threads; a row of milliseconds of one sentence, with what
    it takes at least; and rows of a few sentences at once."""
    from . import speed
    from .speed_limits import flops_per_token, sentence_floors

    settings: dict[str, Any] = {"model": name, "threads": n_threads}
    speeds = []
    with speed.on_threads(n_threads):
        bilms = speed.encoders(speed.load_model(name).to(device))
        single = {**settings, **speed.latency(bilms, sentences)}
        few = [{**settings, **row} for row in speed.few_sentences(bilms, sentences)]
        for size in batch_sizes:
            runs = {
                k: partial(speed.encode_all, b, sentences, size)
                for k, b in bilms.items()
            }
            runs["warm"]()  # the others have read before
            found = speed.in_turn(runs, rounds, warm_up=False)
            flops = flops_per_token(bilms["cold"], sentences, size)
            shares = {
                f"{kind}, share": found[kind] * flops / (n_threads * peaks[precision])
                for kind, precision in PRECISION_OF.items()
                if kind in found and precision in peaks
            }
            speeds.append({**settings, "batch": size, **found, **shares})
    if device == "cpu":
        (sentence,) = speed.single_sentences(sentences)[0]
        floors = sentence_floors(bilms["cold"].config, sentence, peaks)
        single |= {f"{kind}, floor": floor for kind, floor in floors.items()}
    return speeds, [single], few


def _to_choose(name: str, tables: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the settings of a model that were the fastest for much text, and for one
    sentence; in float32 alone too."""
    row: dict[str, Any] = {"model": name}
    for title, what, best in (
        ("tokens/s", "throughput", max),
        ("milliseconds of 20 tokens", "one sentence", min),
    ):
        found = [
            (row[kind], f"{precision}, {row['threads']} threads")
            for row in tables[title]
            if row["model"] == name
            for kind, precision in PRECISION_OF.items()
            if kind in row
        ]
        in_float32 = [each for each in found if each[1].startswith("float32")]
        row |= {what: best(found)[1], f"{what}, float32": best(in_float32)[1]}
    return row


@benchmark_app.command("precision")
@clear_errors()
def precision_cli(
    pipeline: str = typer.Argument(..., help="Trained pipeline with an elmo"),
    corpus: Path = typer.Argument(..., help="Annotated .spacy file"),
    as_json: AsJson = False,
) -> None:
    """Measure what half precision costs a trained pipeline: errors of its
    vectors in units of their root mean square, and its scores."""
    from .speed import show

    show({"precision": compare_precisions(pipeline, corpus)}, as_json)


def compare_precisions(pipeline: str | Path, corpus: Path) -> list[dict[str, Any]]:
    """Return a row for each precision of this processor: the mean and the largest
    difference of the layers of a pipeline's `elmo` from float32, in units of their root
    mean square, and the pipeline's scores on a .spacy file."""
    import numpy as np
    import spacy
    from spacy.training import Corpus

    from ..errors import Errors
    from ..pipeline import Elmo
    from .speed import precisions

    rows: list[dict[str, Any]] = []
    exact: Any = None
    loaded = spacy.load(pipeline).components
    name = next((name for name, pipe in loaded if isinstance(pipe, Elmo)), None)
    if name is None:
        raise ValueError(Errors.EL215.format(name="elmo", source=pipeline))
    for precision in precisions():
        config = {f"components.{name}.model.precision": precision}
        nlp = spacy.load(pipeline, config=config)
        examples = list(Corpus(corpus)(nlp))
        if not any(len(example.reference) for example in examples):
            raise Errors.EL033()
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
