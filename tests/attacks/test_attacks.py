"""What attacks found once stays mended, and what they find now is nothing."""

import numpy as np
import pytest

from attacks import kills, text, threads
from attacks.__main__ import NAMES, attack
from attacks.files import ALLOWED, CORPUS, replay
from attacks.report import Run
from attacks.targets import TARGETS
from tests.models import OURS

CASES = sorted(path for path in CORPUS.glob("*/*") if path.is_dir())
# Minutes of each attack, one together.
SHARES = {
    "files": 0.15, "guided": 0.15, "operations": 0.12, "text": 0.1, "threads": 0.1,
    "kills": 0.15, "disks": 0.13, "soak": 0.1,
}  # fmt: skip


@pytest.mark.parametrize(
    "case", CASES, ids=lambda path: f"{path.parent.name}-{path.name}"
)
def test_case_of_the_corpus(case, tmp_path):
    outcome = replay(case, tmp_path)
    assert outcome["outcome"] in ALLOWED, outcome


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_attack(name, tmp_path):
    run = Run(name, SHARES[name], seed=0, output=tmp_path)
    assert attack(run) == 0, run.findings
    assert run.counts.total() > 0


def test_an_attack_that_ends_early_is_a_finding(tmp_path, monkeypatch):
    """So the others run all the same, and what was done is written."""
    monkeypatch.setattr(kills, "attack", lambda run: 1 / 0)
    run = Run("kills", 0.1, seed=0, output=tmp_path)
    assert attack(run) == 1 and "ZeroDivisionError" in run.findings[0]
    assert list(tmp_path.glob("**/*.json"))


def test_every_format_of_weights_is_attacked():
    assert {"own" if name == "spacy-elmo" else name for name in OURS} <= set(TARGETS)


def test_attacks_take_a_minute():
    assert set(NAMES) == set(SHARES) and sum(SHARES.values()) <= 1


@pytest.fixture
def crowd(tmp_path):
    return threads.Crowd(Run("threads", 1, seed=0, output=tmp_path), tmp_path)


@pytest.mark.skipif(not hasattr(threads.os, "fork"), reason="the system has no fork")
@pytest.mark.parametrize(
    ("right", "found"),
    [
        ([[np.zeros((20, 32), np.float32)]], ["a fork has vectors of no model"]),
        ([[None]], ["a fork ended with an exception"]),
        (None, []),
    ],
)
def test_forks_that_are_wrong_are_found(crowd, right, found):
    crowd.right = crowd.right if right is None else right
    crowd.fork()
    assert crowd.run.findings == found and crowd.run.counts["forks"] == 1


def test_threads_that_raise_are_found(crowd):
    crowd.models = []
    crowd.watched(crowd.swap)
    (finding,) = crowd.run.findings
    assert finding.startswith("swap ended with IndexError")


def test_vectors_that_are_no_numbers_are_found(tmp_path):
    reader = text.Reader(Run("text", 1, seed=0, output=tmp_path))
    sentence = ["a", "word"]
    (layers,) = reader.bilm.encode([sentence])
    reader.compare(reader.bilm, sentence, layers)
    assert reader.run.findings == []
    reader.compare(reader.bilm, sentence, layers * np.nan)
    assert len(reader.run.findings) == 1
