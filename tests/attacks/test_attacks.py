"""What attacks found once stays mended, and what they find now is nothing."""

import pytest

from attacks.__main__ import NAMES, attack
from attacks.files import ALLOWED, CORPUS, replay
from attacks.report import Run

CASES = sorted(path for path in CORPUS.glob("*/*") if path.is_dir())
# Minutes of each attack, two together.
SHARES = {
    "files": 0.3, "guided": 0.25, "operations": 0.25, "text": 0.2, "threads": 0.2,
    "kills": 0.4, "disks": 0.25, "soak": 0.15,
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


def test_attacks_take_two_minutes():
    assert set(NAMES) == set(SHARES) and sum(SHARES.values()) <= 2
