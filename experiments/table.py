"""The table of corpora, tasks, setups and experiments (experiments.yml)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import srsly

PATH = Path(__file__).with_name("experiments.yml")
PARTS = ("train", "dev", "test")


@dataclass(frozen=True)
class Task:
    """A component that is trained by itself, on a corpus with a score. The title is
    that of its plots."""

    name: str
    component: str
    corpus: str
    score: str
    lang: str = "en"
    title: str = ""


@dataclass(frozen=True)
class Setup:
    """A pipeline: settings of `make_config`, other settings by their dotted names, the
    share of the training sentences that it reads, weights of its biLM (with `{corpus}`
    for the name of the task's), a text for `spacy pretrain`, and an architecture in
    ELMo's place."""

    name: str
    what: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    share: float = 1.0
    weights: str | None = None
    pretrain_on: str | None = None
    in_its_place: str | None = None

    @property
    def has_elmo(self) -> bool:
        return self.config.get("places") != [] and self.in_its_place is None


@dataclass(frozen=True)
class Experiment:
    """Runs with one budget: updates (None for spaCy's own budget, which ends by its
    patience), and evaluations on the development set."""

    name: str
    steps: int | None
    runs: list[dict[str, list[str]]]
    evaluations: int = 20

    def pairs(self) -> Iterator[tuple[Task, Setup]]:
        """Yield the task and the setup of every run."""
        for some in self.runs:
            for name in some["tasks"]:
                for setup in some["setups"]:
                    yield find_task(name), find_setup(setup)


@cache
def read_table() -> dict[str, Any]:
    return dict(srsly.read_yaml(PATH))


def _row(kind: str, name: str) -> dict[str, Any]:
    rows = read_table()[kind]
    if name not in rows:
        raise ValueError(f"'{name}' is none of the {kind} in {PATH}: {', '.join(rows)}")
    return {"name": name, **rows[name]}


def find_task(name: str) -> Task:
    return Task(**_row("tasks", name))


def find_setup(name: str) -> Setup:
    return Setup(**_row("setups", name))


def find_experiment(name: str) -> Experiment:
    return Experiment(**_row("experiments", name))
