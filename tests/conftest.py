import os
from pathlib import Path

import pytest
import torch

from spacy_elmo.bilm.bilm import BiLM

from .models import tiny_config

ROOT = Path(__file__).parents[1]
# Published gold files, which the project does not ship (tests/gold has small
# ones): a folder beside the repository, or wherever the variable points.
SHARED = Path(os.environ.get("SPACY_ELMO_SHARED", ROOT.parent / "shared"))
HOW = "SPACY_ELMO_SHARED names the folder with gold/"

torch.set_num_threads(1)  # tiny products: a second thread only waits


def pytest_addoption(parser):
    text = "how often tests of killed processes kill one, each"
    parser.addoption("--kills", type=int, default=3, help=text)


@pytest.fixture(scope="session")
def n_kills(request) -> int:
    return int(request.config.getoption("--kills"))


@pytest.fixture(scope="session")
def gold() -> Path:
    if not (SHARED / "gold").exists():
        pytest.skip(f"the gold files are not here; {HOW}")
    return SHARED / "gold"


@pytest.fixture
def tiny() -> BiLM:
    return BiLM.random(tiny_config(), seed=1)
