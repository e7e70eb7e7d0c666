"""Make a pipeline to install, from its treebank to its wheel.

    python -m experiments.pipelines NAME

converts the treebank, trains the pipeline with ELMo and without, scores both on the
test set, and packs the first: a wheel in dist/, its card and its scores in
experiments/pipelines/cards/.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import spacy
import typer
from spacy.cli.package import package
from spacy.util import load_config
from wasabi import msg

from spacy_elmo import models as shipped
from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.files import sha256, write_file

from .card import describe, notes, scalars, write_documents
from .corpus import convert
from .scores import evaluate, read, speed
from .sources import PIPELINES, Pipeline
from .train import train

app = typer.Typer(add_completion=False)
FOLDER = Path(__file__).parent
WITH, WITHOUT = "with ELMo", "without"


def convert_all(pipeline: Pipeline, treebanks: Path, corpus: Path) -> None:
    """Write train, dev and test.spacy."""
    for part in ("train", "dev", "test"):
        stem = treebanks / f"{pipeline.treebank}-{part}"
        entities = stem.with_suffix(".iob2") if pipeline.has_entities else None
        convert(stem.with_suffix(".conllu"), corpus / f"{part}.spacy", entities)


def fit(
    config: Path,
    corpus: Path,
    folder: Path,
    steps: int,
    *,
    elmo: bool,
    dropout: float | None = None,
) -> Path:
    """Train a pipeline, if it was not trained to its end; return the folder of the
    best. One of another configuration, treebank or biLM is not replaced: the command
    ends."""
    settings: dict[str, Any] = {
        "paths.train": str(corpus / "train.spacy"),
        "paths.dev": str(corpus / "dev.spacy"),
        "paths.layers": str(folder.parent / "layers"),
    }
    if steps:
        settings |= {
            "training.max_steps": steps,
            "training.eval_frequency": steps,
            "training.optimizer.learn_rate.warmup_steps": steps // 10,
        }
    if dropout is not None:
        settings["training.dropout"] = dropout
    finished = folder / "finished.json"
    text = config.read_text(encoding="utf-8")
    depends = [sha256(corpus / f"{part}.spacy") for part in ("train", "dev")]
    if elmo:
        lang = load_config(config)["nlp"]["lang"]
        depends.append(BiLM.load(shipped.folder(lang)).fingerprint())
    recipe = json.dumps([text, steps, elmo, dropout, *depends])
    if not finished.exists():
        shutil.rmtree(folder, ignore_errors=True)
        train(config, folder, settings, elmo=elmo)
        write_file(finished, recipe)
    elif finished.read_text(encoding="utf-8") != recipe:
        what = "another configuration, treebank or biLM"
        msg.fail(f"'{folder}' is of {what}: remove it", exits=1)
    return folder / "model-best"


def pack(folder: Path, dist: Path) -> Path:
    """Make a wheel of a saved pipeline by `spacy package`; return its path."""
    built = folder.parent / "package"
    shutil.rmtree(built, ignore_errors=True)  # of another version, perhaps
    built.mkdir()
    code = [FOLDER / "numpy_products.py"]
    package(
        folder,
        built,
        code_paths=code,
        create_sdist=False,
        create_wheel=True,
        force=True,
    )
    (wheel,) = built.glob("*/dist/*.whl")
    dist.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(wheel, dist))


@app.command()
def main(
    name: str = typer.Argument(..., help=" or ".join(PIPELINES)),
    treebanks: Path = typer.Option(
        Path("experiments/corpus"), help="Folder with the files of the treebank"
    ),
    output: Path = typer.Option(Path("training/pipelines"), help="Folder for the runs"),
    dist: Path = typer.Option(Path("dist"), help="Folder for the wheel"),
    cards: Path = typer.Option(FOLDER / "cards", help="Folder for card and scores"),
    steps: int = typer.Option(0, help="Updates, 0 for those of the configuration"),
    compare: bool = typer.Option(True, help="Train and score it without ELMo, too"),
) -> None:
    """Train, score and pack a pipeline. What is there already is not made again."""
    if name not in PIPELINES:
        msg.fail(f"'{name}' is none of {', '.join(PIPELINES)}", exits=1)
    pipeline, run = PIPELINES[name], output / name
    convert_all(pipeline, treebanks, run / "corpus")
    config = FOLDER / f"{name}.cfg"
    found: dict[str, dict[str, Any]] = {}
    speeds: dict[str, dict[str, float]] = {}
    for setup in (WITH, WITHOUT) if compare else (WITH,):
        elmo = setup == WITH
        dropout = None if elmo else pipeline.dropout_without
        best = fit(
            config, run / "corpus", run / setup, steps, elmo=elmo, dropout=dropout
        )
        nlp = spacy.load(best)
        docs = read(run / "corpus" / "test.spacy", nlp)
        found[setup] = {
            "gold tokens": evaluate(nlp, docs, gold=True),
            "raw text": evaluate(nlp, docs, gold=False),
        }
        speeds[setup] = speed(nlp, docs)
    best = run / WITH / "model-best"
    nlp = spacy.load(best)
    text = notes(found, speeds, best, nlp.config["training"])
    describe(nlp, name, pipeline, found, text)
    nlp.to_disk(run / "model")
    card = write_documents(run / "model", nlp, found[WITH]["raw text"])
    wheel = pack(run / "model", dist)
    scores = {
        "test": {
            setup: {way: scalars(some) for way, some in ways.items()}
            for setup, ways in found.items()
        },
        "words_per_second": speeds,
        "wheel_bytes": wheel.stat().st_size,
    }
    cards.mkdir(parents=True, exist_ok=True)
    (cards / f"{name}.md").write_text(card, encoding="utf-8")
    (cards / f"{name}.json").write_text(json.dumps(scores, indent=1), encoding="utf-8")
    msg.good(f"{wheel}, {wheel.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    app()
