"""What attacks found once stays mended."""

import pytest

from attacks.files import ALLOWED, CORPUS, replay

CASES = sorted(path for path in CORPUS.glob("*/*") if path.is_dir())


@pytest.mark.parametrize(
    "case", CASES, ids=lambda path: f"{path.parent.name}-{path.name}"
)
def test_case_of_the_corpus(case, tmp_path):
    outcome = replay(case, tmp_path)
    assert outcome["outcome"] in ALLOWED, outcome
