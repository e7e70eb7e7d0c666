"""Train pipelines with one budget, with and without ELMo, and score them.

    python -m experiments.train NAME ... --seeds 3

makes the runs of experiments of experiments.yml. A run is a task, a setup and a seed,
in a folder of its own, OUTPUT/NAME/TASK/SETUP/SEED: config.cfg, which `spacy train`
takes, `model-best`, and its score in metrics.json. It is made once: after an
interruption the same command makes those that are missing.
"""

import hashlib
import json
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import spacy
import typer
from confection import Config
from spacy.cli._util import setup_gpu
from spacy.training import Corpus
from spacy.training.initialize import init_nlp
from spacy.training.loop import train as train_pipeline
from spacy.util import load_config
from thinc.api import use_ops
from wasabi import msg

from spacy_elmo import models as shipped
from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.files import sha256, write_files
from spacy_elmo.pipeline import make_config
from spacy_elmo.words import WordEncoder

from . import small_transformer
from .scores import METRICS
from .spacy_pretrain import begin_with, pretrained, pretraining
from .table import (
    PARTS,
    Experiment,
    Setup,
    Task,
    find_experiment,
    find_setup,
    find_task,
)

CONFIG, LOG = "config.cfg", "log.jsonl"


@dataclass(frozen=True)
class Run:
    """One pipeline that is trained and scored.

    Attributes:
        output: Folder for the runs of all experiments, and for the layers that they
            share.
        corpora: Folder with the corpora.
        weights: Model folder or shipped name for setups with ELMo that name none; None
            for what ships for the language.
        gpu: Number of a GPU, or -1.
    """

    experiment: Experiment
    task: Task
    setup: Setup
    seed: int
    output: Path = Path("training")
    corpora: Path = Path("corpus")
    weights: str | None = None
    gpu: int = -1

    @property
    def folder(self) -> Path:
        setup = self.setup.name.replace(" ", "_")
        experiment = self.output / self.experiment.name
        return experiment / self.task.name / setup / str(self.seed)

    @property
    def corpus(self) -> Path:
        return self.corpora / self.task.corpus

    @property
    def text(self) -> Path | None:
        """What `spacy pretrain` reads, if it does."""
        name = self.setup.pretrain_on
        return None if name is None else self.corpora / name

    @property
    def source(self) -> str | None:
        """Weights of the biLM, if there is one and they are not what ships."""
        if not self.setup.has_elmo:
            return None
        own = self.setup.weights
        return self.weights if own is None else own.format(corpus=self.task.corpus)

    def bilm(self) -> BiLM:
        """Return the biLM of a setup that has one."""
        source = self.source or shipped.folder(self.task.lang)
        return BiLM.load(shipped.find(source))

    def words(self) -> WordEncoder:
        """Return the vectors of words of a setup that has some."""
        return WordEncoder.load(shipped.find(self.setup.config["words"]))

    def config(self) -> str:
        config = make_config(
            [self.task.component],
            lang=self.task.lang,
            weights=self.source,
            steps=self.experiment.steps,
            **self.setup.config,
        )
        other = self.setup.in_its_place
        return config if other is None else without_elmo(config, other)

    def overrides(self) -> dict[str, Any]:
        """Return what results depend on beside the configuration."""
        found: dict[str, Any] = {
            "system.seed": self.seed,
            # Where spaCy's tokens are others, no tagger could be right.
            "corpora.train.gold_preproc": True,
            "corpora.dev.gold_preproc": True,
        }
        steps = self.experiment.steps
        if steps is not None:
            every = max(1, steps // self.experiment.evaluations)
            found["training.eval_frequency"] = every
        if self.setup.share < 1:
            reader = Corpus(self.corpus / "train.spacy")
            n_docs = sum(1 for _ in reader(spacy.blank("xx")))
            found["corpora.train.limit"] = max(1, round(n_docs * self.setup.share))
        return found | self.setup.settings

    def identity(self, overrides: dict[str, Any] | None = None) -> str:
        """Return a hash of all that results depend on."""
        depends: list[Any] = [self.config(), overrides or self.overrides()]
        depends += [sha256(self.corpus / f"{part}.spacy") for part in PARTS]
        if self.setup.has_elmo:
            depends.append(self.bilm().fingerprint())
        if self.text is not None:
            depends.append(sha256(self.text))
        if "words" in self.setup.config:
            depends.append(self.words().sha256)
        if "static" in self.setup.config:
            depends.append(
                sha256(Path(self.setup.config["static"], "vocab", "vectors"))
            )
        return _hash(depends)

    def recipe(self) -> str:
        """Return a hash that runs with other seeds have too."""
        return self.identity({**self.overrides(), "system.seed": None})

    def missing(self) -> Path | str | None:
        """Return a file, folder or package that the run needs and that is not there."""
        needed = [self.corpus / f"{part}.spacy" for part in PARTS]
        if self.text is not None:
            needed.append(self.text)
        weights = self.source if self.setup.weights else None
        if weights not in (None, *shipped.MODELS.values()):
            needed.append(Path(weights))
        if "static" in self.setup.config:
            needed.append(Path(self.setup.config["static"], "vocab", "vectors"))
        packages = small_transformer.PACKAGES if self.setup.in_its_place else ()
        lacking: list[Path | str] = [path for path in needed if not path.exists()]
        lacking += [name for name in packages if find_spec(name) is None]
        return next(iter(lacking), None)


def without_elmo(config: str, architecture: str) -> str:
    """Return a configuration with other vectors in the place of ELMo's."""
    found = Config().from_str(config, interpolate=False)
    found["nlp"]["pipeline"].remove("elmo")
    del found["components"]["elmo"], found["initialize"]["components"]["elmo"]
    for component in found["components"].values():
        component["model"]["tok2vec"]["elmo"] = {"@architectures": architecture}
    return found.to_str(interpolate=False)


def make(run: Run, *, overwrite: bool = False) -> dict[str, Any]:
    """Train and score a run, or read what was found before.

    Args:
        overwrite: Replace a run that was made with other settings, corpora or weights.

    Returns:
        Its metrics: score on the test set, seconds, and the history of its dev score.

    Raises:
        ValueError: It was made with other settings, corpora or weights.
    """
    identity, path = run.identity(), run.folder / METRICS
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if found["identity"] == identity:
            return found
        if not overwrite:
            raise ValueError(
                f"'{run.folder}' was made with other settings, corpora or weights. "
                "Remove it, choose another --output, or give --force."
            )
    shutil.rmtree(run.folder, ignore_errors=True)
    run.folder.mkdir(parents=True)
    seconds = fit(run)
    nlp = spacy.load(run.folder / "model-best")
    test = Corpus(run.corpus / "test.spacy", gold_preproc=True)
    metrics = {
        "identity": identity,
        "recipe": run.recipe(),
        "task": run.task.name,
        "setup": run.setup.name,
        "seed": run.seed,
        "score": nlp.evaluate(list(test(nlp)))[run.task.score],
        "seconds": seconds,
        "history": list(_history(run.folder / LOG)),
    }
    text = json.dumps(metrics, indent=1)
    write_files(run.folder, {METRICS: text})
    return metrics


def fit(run: Run) -> float:
    """Train the pipeline of a run, as `spacy train` does. Returns seconds."""
    path = run.folder / CONFIG
    path.write_text(run.config(), encoding="utf-8")
    overrides = {
        **run.overrides(),
        "paths.train": str(run.corpus / "train.spacy"),
        "paths.dev": str(run.corpus / "dev.spacy"),
        "training.logger.@loggers": "spacy.ConsoleLogger.v3",
        "training.logger.output_file": str(run.folder / LOG),
    }
    if run.setup.has_elmo and run.setup.config.get("frozen", True):
        # One for each biLM, so that none is full of another's layers.
        layers = run.output / f"layers-{run.bilm().fingerprint()[:8]}"
        overrides["initialize.components.elmo.layer_cache"] = str(layers)
    weights = None
    if run.text is not None:
        config = pretraining(run.config(), run.task.component)
        name = f"{run.task.lang}-{_hash([config.to_str(), sha256(run.text)])[:8]}"
        place = run.output / "spacy_pretrain" / name
        weights = pretrained(config, place, run.text, gpu=run.gpu)
    started = time.time()
    setup_gpu(run.gpu)
    config = load_config(path, overrides=overrides, interpolate=False)
    nlp = init_nlp(config, use_gpu=run.gpu)
    if weights is not None:
        begin_with(nlp, run.task.component, weights)
    train_pipeline(nlp, run.folder, use_gpu=run.gpu, stdout=sys.stdout)
    return time.time() - started


def _history(log: Path) -> Iterator[dict[str, float]]:
    """Yield step, epoch and dev score of every evaluation."""
    for line in log.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield {key: row[key] for key in ("step", "epoch", "score")}


def _hash(parts: list[Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def main(
    names: list[str] = typer.Argument(..., help="Experiments of experiments.yml"),
    output: Path = typer.Option(Path("training"), help="Folder for the runs"),
    corpora: Path = typer.Option(Path("corpus"), help="Folder with the corpora"),
    seeds: int = typer.Option(3, help="How many runs of each pipeline"),
    steps: int = typer.Option(0, help="Updates, 0 for those of the experiment"),
    weights: str = typer.Option("", help="Model folder or shipped name of the biLM"),
    force: bool = typer.Option(
        False, "--force", "-F", help="Replace runs that had other settings"
    ),
    gpu: int = typer.Option(-1, "--gpu-id"),
    task: list[str] = typer.Option([], help="These tasks of them alone"),
    setup: list[str] = typer.Option([], help="These setups of them alone"),
) -> None:
    """Make the runs of experiments that are missing."""
    runs = []
    try:
        experiments = [find_experiment(name) for name in names]
        for known, given in ((find_task, task), (find_setup, setup)):
            for name in given:
                known(name)
    except ValueError as error:
        msg.fail(str(error), exits=1)
    for found in experiments:
        experiment = replace(found, steps=steps or found.steps)
        for seed in range(seeds):
            where = (output, corpora, weights or None, gpu)
            runs += [
                Run(experiment, of_task, of_setup, seed, *where)
                for of_task, of_setup in experiment.pairs()
                if (not task or of_task.name in task)
                and (not setup or of_setup.name in setup)
            ]
    # Not thinc's choice for CPUs, BLIS, which takes 1.3 times as long for a run on an
    # AMD EPYC (Zen 5). They differ in rounding alone.
    ops = nullcontext() if gpu >= 0 else use_ops("numpy", use_blis=False)
    with ops:
        skipped = 0
        for number, run in enumerate(runs, start=1):
            msg.divider(f"{number} of {len(runs)}: {run.folder}")
            if missing := run.missing():
                msg.warn(f"Skipped, since there is no '{missing}'")
                skipped += 1
                continue
            try:
                found = make(run, overwrite=force)
            except (ValueError, OSError) as error:
                msg.fail(str(error), exits=1)
            msg.info(f"{found['score']:.2%} on the test set, {found['seconds']:.0f} s")
    if skipped:
        msg.warn(
            f"{skipped} of {len(runs)} runs were skipped: what they need is missing"
        )
    if skipped == len(runs):
        msg.fail("There was nothing to train", exits=1)


if __name__ == "__main__":
    typer.run(main)
