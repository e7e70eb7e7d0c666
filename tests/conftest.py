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

# Forks, threads of its own and caches are where a second thread of torch has done harm.
# The other tests multiply tiny matrices, for which it would only wait.
ON_ALL_THREADS = ("pipeline", "embed", "bilm", "test_forks.py", "test_made_by_0_2.py")
ON_ONE_THREAD = ("bilm/kernels/test_kernels.py", "bilm/objectives", "bilm/weights")
N_THREADS = torch.get_num_threads()


@pytest.fixture(autouse=True)
def _threads(request):
    """Use as many threads of torch as a user has, where it can matter."""
    path = request.path.relative_to(Path(__file__).parent)
    on_all = path.parts[0] in ON_ALL_THREADS
    on_all &= not path.as_posix().startswith(ON_ONE_THREAD)
    torch.set_num_threads(N_THREADS if on_all else 1)


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
