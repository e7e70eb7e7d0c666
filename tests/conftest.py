import os
from pathlib import Path

import pytest
import torch

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.kernels.matmul import works
from spacy_elmo.bilm.kernels.processor import probe

from .models import tiny_config

ROOT = Path(__file__).parents[1]
# Published gold files, which the project does not ship (tests/gold has small
# ones): a folder beside the repository, or wherever the variable points.
SHARED = Path(os.environ.get("SPACY_ELMO_SHARED", ROOT.parent / "shared"))
HOW = "SPACY_ELMO_SHARED names the folder with gold/"

# Operators that torch keeps for itself and that kernels use, where it has them.
PRIVATE = (
    "mkldnn._reorder_linear_weight",
    "mkldnn._linear_pointwise",
    "onednn.qlinear_prepack",
    "onednn.qlinear_pointwise",
    "quantized.linear_prepack_fp16",
    "quantized.linear_dynamic_fp16",
    "quantized.linear_prepack",
    "quantized.linear_dynamic",
)

torch.set_num_threads(1)  # tiny products: a second thread only waits


def pytest_addoption(parser):
    text = "how often tests of killed processes kill one, each"
    parser.addoption("--kills", type=int, default=3, help=text)
    hidden = "a private operator of torch that tests run without"
    parser.addoption("--hide", choices=PRIVATE, help=hidden)


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


def hide(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have torch without a private operator, as if it was never there."""
    namespace, operator = name.split(".")
    monkeypatch.setattr(getattr(torch.ops, namespace), operator, object())
    for function in (works, probe):
        function.cache_clear()


@pytest.fixture(autouse=True)
def hidden(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    name = request.config.getoption("--hide")
    if name:
        hide(name, monkeypatch)
