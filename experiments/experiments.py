"""The paper's comparisons: the same pipelines and budget, with and without ELMo.

Sentences and tokens are the corpora's own. A run is a task, a setup and a seed, in a
folder of its own. It is made once: the same command, after an interruption, makes those
that are missing. `report.md` and pictures are made of whatever runs there are.
"""

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import spacy
import typer
from spacy.cli.train import train as spacy_train
from spacy.training import Corpus
from wasabi import msg

from spacy_elmo import models as shipped
from spacy_elmo.atomic_files import sha256, write_files, write_text
from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.component.training_config import ELMO, make_config
from spacy_elmo.errors import Errors

from .kept_corpus import READER
from .pretrained_baseline import BEGIN_WITH, pretrained, pretraining
from .products import by_numpy

METRICS, CONFIG = "metrics.json", "config.cfg"
PARTS = ("train", "dev", "test")
PRETRAINED = Path("training/spacy_pretrain")
# What `spacy pretrain` reads: the text of the biLM that ships for the language.
TEXTS = {
    "en": Path("corpus/english_lm_train.txt.xz"),
    "ko": Path("corpus/korean_lm_train.txt.xz"),
}


@dataclass(frozen=True)
class Task:
    """corpus: folder with train, dev and test.spacy."""

    component: str
    corpus: str
    score: str
    lang: str = "en"


@dataclass(frozen=True)
class Setup:
    """settings: of `make_config`. share: of the training sentences that are read.
    weights: of the biLM, if they are other ones. is_pretrained: by `spacy pretrain`."""

    settings: dict[str, Any] = field(default_factory=dict)
    share: float = 1.0
    weights: str | None = None
    is_pretrained: bool = False


TASKS = {
    "ewt-xpos": Task("tagger", "ewt-pos", "tag_acc"),
    "ewt-upos": Task("tagger", "ewt-upos", "tag_acc"),
    "ewt-ner": Task("ner", "ewt-ner", "ents_f"),
    "wnut17": Task("ner", "wnut17", "ents_f"),
    "ncbi-disease": Task("ner", "ncbi-disease", "ents_f"),
    "ko-gsd": Task("tagger", "ko-gsd-pos", "tag_acc", lang="ko"),
}
LEARN_RATE = 0.004  # at its highest, for all setups alike


def _mix(mix: str | int, l2: float = 0.0) -> Setup:
    return Setup({"listener": {"mix": mix, "l2": l2}})


SHARES = 1, 3, 10, 30
DOMAIN = "training/biomedical/model-best"  # what the workflow `domain` makes
SETUPS = {
    "baseline": Setup({"places": []}),
    "flat": Setup({"places": [], "encoder": ELMO}),
    "spacy pretrain": Setup({"places": []}, is_pretrained=True),
    "domain": Setup(weights=DOMAIN),
    "elmo": Setup(),
    "fine-tuned": Setup({"frozen": False}),
    "output": Setup({"places": ["output"], "encoder": ELMO}),
    "input and output": Setup({"places": ["input", "output"]}),
    "average": _mix("average"),
    "top": _mix("top"),
    "token layer": _mix(0),
    "lambda 1": _mix("learned", 1.0),
    "lambda 0.1": _mix("learned", 0.1),
    "lambda 0": _mix("learned", 0.0),
    "wide": Setup({"encoder": (384, 1)}),
    **{f"baseline {n}%": Setup({"places": []}, share=n / 100) for n in SHARES},
    **{f"elmo {n}%": Setup(share=n / 100) for n in SHARES},
}


@dataclass(frozen=True)
class Run:
    task: str
    setup: str
    seed: int

    def folder(self, output: Path) -> Path:
        return output / self.task / self.setup.replace(" ", "_") / str(self.seed)


def make(
    run: Run,
    output: Path,
    corpora: Path,
    *,
    weights: str | None = None,
    steps: int = 4000,
    evaluations: int = 20,
    layer_cache: str | None = None,
    text: Path | None = None,
    text_lines: int = 0,
    pretrained_in: Path = PRETRAINED,
    gpu: int = -1,
) -> dict[str, Any]:
    """Train, and score on the test set; or read what was found before.

    evaluations: on the development set, evenly over the updates; the best one counts.
    text, text_lines: what `spacy pretrain` reads, and how many lines of it (0: all).
    pretrained_in: folder for what it makes.
    Raises ValueError [EL092] if it was made with other settings, corpora or weights,
    [EL033] if there is no text where one is needed, and as `BiLM.load`."""
    task, setup = TASKS[run.task], SETUPS[run.setup]
    if setup.is_pretrained and text is None:
        raise ValueError(Errors.EL033)
    folder, corpus = run.folder(output), corpora / task.corpus
    has_elmo = setup.settings.get("places") != []
    source = (setup.weights or weights) if has_elmo else None
    config = make_config(
        [task.component], lang=task.lang, weights=source, **setup.settings
    )
    overrides: dict[str, Any] = {
        "system.seed": run.seed,
        "training.max_steps": steps,
        "training.eval_frequency": max(1, steps // evaluations),
        "training.patience": 0,  # each has its whole budget
        # Where spaCy's tokens are others, no tagger could be right.
        "corpora.train.gold_preproc": True,
        "corpora.dev.gold_preproc": True,
        "training.optimizer.learn_rate": {
            "@schedules": "warmup_linear.v1",
            "warmup_steps": steps // 10,
            "total_steps": steps,
            "initial_rate": LEARN_RATE,
        },
    }
    if setup.share < 1:
        reader = Corpus(corpus / "train.spacy")
        n_docs = sum(1 for _ in reader(spacy.blank("xx")))
        overrides["corpora.train.limit"] = max(1, round(n_docs * setup.share))
    depends: dict[str, Any] = {"overrides": dict(overrides)}
    depends["corpora"] = [sha256(corpus / f"{part}.spacy") for part in PARTS]
    if has_elmo:
        bilm = BiLM.load(shipped.find(source) if source else shipped.folder(task.lang))
        depends["bilm"] = bilm.fingerprint()
    before = pretraining(config, task.component) if setup.is_pretrained else None
    if before is not None and text is not None:
        depends["pretraining"] = [before.to_str(), sha256(text), text_lines]
    identity = _hash(config, depends)
    done = _read(folder)
    if done is not None:
        if done["identity"] != identity:
            raise ValueError(Errors.EL092.format(path=folder))
        return done
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG).write_text(config, encoding="utf-8")
    if before is not None and text is not None:
        name = f"{task.lang}-{_hash(depends['pretraining'])[:8]}"
        place = pretrained_in / name
        overrides["initialize.after_init"] = {
            "@callbacks": BEGIN_WITH,
            "component": task.component,
            "weights": str(pretrained(before, place, text, text_lines, gpu=gpu)),
        }
    if has_elmo and setup.settings.get("frozen", True):
        overrides["initialize.components.elmo.layer_cache"] = layer_cache
    log = folder / "log.jsonl"
    log.unlink(missing_ok=True)
    overrides |= {
        "paths.train": str(corpus / "train.spacy"),
        "paths.dev": str(corpus / "dev.spacy"),
        "corpora.train.@readers": READER,
        "corpora.dev.@readers": READER,
        "training.logger.@loggers": "spacy.ConsoleLogger.v3",
        "training.logger.output_file": str(log),
    }
    started = time.time()
    spacy_train(folder / CONFIG, folder, use_gpu=gpu, overrides=overrides)
    seconds = time.time() - started
    nlp = spacy.load(folder / "model-best")
    test = Corpus(corpus / "test.spacy", gold_preproc=True)
    scores = nlp.evaluate(list(test(nlp)))
    metrics = {
        "identity": identity,
        "task": run.task,
        "setup": run.setup,
        "seed": run.seed,
        "score": scores[task.score],
        "seconds": seconds,
        "history": list(_history(log)),
    }
    found = json.dumps(metrics, indent=1)
    write_files(folder, {METRICS: lambda path: write_text(found, path)})
    return metrics


def _history(log: Path) -> Iterator[dict[str, float]]:
    """Step, epoch and dev score of every evaluation."""
    for line in log.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield {key: row[key] for key in ("step", "epoch", "score")}


def _hash(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _read(folder: Path) -> dict[str, Any] | None:
    path = folder / METRICS
    if not path.exists():
        return None
    return dict(json.loads(path.read_text(encoding="utf-8")))


def main(
    output: Path = typer.Argument(..., help="Folder for the runs"),
    corpora: Path = typer.Option(Path("corpus"), help="Folder with their .spacy files"),
    tasks: str = typer.Option("ewt-xpos,ewt-ner,wnut17", help=", ".join(TASKS)),
    setups: str = typer.Option("baseline,elmo", help=", ".join(SETUPS)),
    seeds: int = typer.Option(3, help="How many"),
    weights: str = typer.Option("", help="Model folder or shipped name"),
    steps: int = typer.Option(4000, help="Updates"),
    evaluations: int = typer.Option(20, min=1, help="On the development set"),
    layer_cache: str = typer.Option("memory", help="File, or 'memory'"),
    text: Path | None = typer.Option(
        None, help="What 'spacy pretrain' reads; the language's in corpus/ by default"
    ),
    text_lines: int = typer.Option(0, help="Lines of it, 0 for all"),
    pretrained_in: Path = typer.Option(PRETRAINED, help="Folder for what it makes"),
    gpu: int = typer.Option(-1, "--gpu-id"),
) -> None:
    wanted = [
        Run(task, setup, seed)
        for seed in range(seeds)
        for task in _known(tasks, TASKS)
        for setup in _known(setups, SETUPS)
    ]
    for number, run in enumerate(wanted, start=1):
        msg.divider(f"{number} of {len(wanted)}: {run.task}, {run.setup}, {run.seed}")
        try:
            with by_numpy(gpu):
                found = make(
                    run,
                    output,
                    corpora,
                    weights=weights or None,
                    steps=steps,
                    evaluations=evaluations,
                    layer_cache=layer_cache,
                    text=text or TEXTS[TASKS[run.task].lang],
                    text_lines=text_lines,
                    pretrained_in=pretrained_in,
                    gpu=gpu,
                )
        except (ValueError, OSError) as error:
            msg.fail(str(error), exits=1)
        msg.info(f"{found['score']:.2%} on the test set, {found['seconds']:.0f} s")


def _known(names: str, known: Sequence[str] | dict[str, Any]) -> list[str]:
    wanted = [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in known:
            message = Errors.EL073.format(found=name, known=", ".join(known))
            msg.fail(message, exits=1)
    return wanted


if __name__ == "__main__":
    typer.run(main)
