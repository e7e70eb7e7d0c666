"""Words a second and megabytes of the pipelines that are compared, on one thread.

    python -m experiments.speeds ewt-xpos baseline floret elmo minilm

Pipelines are not trained for that, which changes neither. They read the test set in
turn, and nothing is kept from one round to the next; the median of the rounds counts.
"""

import json
import statistics
import time
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import spacy
import typer
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training.initialize import init_nlp
from spacy.util import load_config_from_str
from thinc.api import use_ops
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from benchmarks.speed import on_threads
from spacy_elmo.files import write_files
from spacy_elmo.pipeline import Elmo, WordsShim

from . import small_transformer
from .scores import Speed
from .table import Experiment, find_setup, find_task
from .train import Run

BUDGET = Experiment("speeds", steps=1, runs=[])


def build(run: Run) -> Language:
    """Return the pipeline of a run as it is before the training."""
    config = load_config_from_str(run.config())
    for part in ("train", "dev"):
        config["paths"][part] = str(run.corpus / f"{part}.spacy")
    return init_nlp(config)


def forget_words(component: Any) -> None:
    """Drop the vectors of words that a component keeps."""
    for node in component.model.walk():
        for shim in node.shims:
            if isinstance(shim, WordsShim):
                shim.encoder.forget()


def speeds(
    pipelines: dict[str, Language], sentences: list[list[str]], rounds: int
) -> dict[str, float]:
    """Return the words a second of each pipeline: sentences are Docs, split already."""
    seconds: dict[str, list[float]] = defaultdict(list)
    for _ in tqdm(range(rounds), unit="round"):
        for name, nlp in pipelines.items():
            docs = [Doc(nlp.vocab, words=words) for words in sentences]
            small_transformer.forget()
            for _, component in nlp.pipeline:
                if isinstance(component, Elmo):
                    component.bilm.token_cache.clear()
                forget_words(component)
            started = time.perf_counter()
            for _ in nlp.pipe(docs):
                pass
            seconds[name].append(time.perf_counter() - started)
    words = sum(map(len, sentences))
    return {name: words / statistics.median(some) for name, some in seconds.items()}


def megabytes(nlp: Language) -> float:
    """Return what a pipeline takes on a disk, and a transformer that it needs."""
    names = (node.name for _, c in nlp.pipeline for node in c.model.walk())
    own = small_transformer.SIZE if "minilm" in names else 0
    with TemporaryDirectory() as folder:
        nlp.to_disk(folder)
        files = (path for path in Path(folder).rglob("*") if path.is_file())
        return (own + sum(path.stat().st_size for path in files)) / 1e6


def main(
    task: str = typer.Argument(..., help="A task of experiments.yml"),
    setups: list[str] = typer.Argument(..., help="Setups of experiments.yml"),
    corpora: Path = typer.Option(Path("corpus"), help="Folder with the corpora"),
    rounds: int = typer.Option(5, help="How often each pipeline reads the test set"),
    output: Path | None = typer.Option(None, help="JSON file that `report` draws"),
) -> None:
    """Print a row for each setup."""
    with on_threads(1), threadpool_limits(1), use_ops("numpy", use_blis=False):
        runs = {
            name: Run(BUDGET, find_task(task), find_setup(name), 0, corpora=corpora)
            for name in setups
        }
        pipelines = {name: build(run) for name, run in runs.items()}
        test = corpora / find_task(task).corpus / "test.spacy"
        docs = DocBin().from_disk(test).get_docs(spacy.blank("xx").vocab)
        found = speeds(pipelines, [[token.text for token in d] for d in docs], rounds)
        rows = {name: Speed(found[name], megabytes(pipelines[name])) for name in found}
    print("| | words/s | MB |\n|---|---|---|")
    for name, row in rows.items():
        print(f"| {name} | {row.words:,.0f} | {row.megabytes:.1f} |")
    if output is not None:
        written = {name: row._asdict() for name, row in rows.items()}
        write_files(output.parent, {output.name: json.dumps(written)})


if __name__ == "__main__":
    typer.run(main)
