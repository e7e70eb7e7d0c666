"""The wheel holds the package with its models, and nothing else of the repository."""

import shutil
import subprocess
import sys
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest

from spacy_elmo import models as shipped

ROOT = Path(__file__).parents[1]
IGNORED = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel from a copy of what git tracks."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, folder / "source", ignore=IGNORED, symlinks=True)
    command = ["-m", "build", "--wheel", "-o", str(folder), str(folder / "source")]
    subprocess.run([sys.executable, *command], check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def files(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_holds_the_package_alone(files):
    tops = {name.split("/")[0] for name in files}
    package, info = sorted(tops)
    assert package == "spacy_elmo" and info.endswith(".dist-info")
    sources = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "spacy_elmo").rglob("*.py")
    }
    assert sources == {name for name in files if name.endswith(".py")}
    assert "spacy_elmo/py.typed" in files
    for path in (ROOT / "spacy_elmo" / "explore" / "templates").iterdir():
        name = path.relative_to(ROOT).as_posix()
        assert files[name] == path.read_bytes()


def test_holds_the_models(wheel, files):
    for model in shipped.MODELS.values():
        folder = shipped.FOLDER / model
        for path in folder.iterdir():
            assert files[f"spacy_elmo/models/{model}/{path.name}"] == path.read_bytes()
        assert sum(path.stat().st_size for path in folder.iterdir()) <= 16_000_000
    assert wheel.stat().st_size < 40_000_000


def test_has_the_metadata(files):
    """Without top_level.txt `spacy package` does not see the plug-in."""
    metadata = {name.split("/")[1]: files[name] for name in files if "info/" in name}
    assert metadata["top_level.txt"].split() == [b"spacy_elmo"]
    parser = ConfigParser(delimiters="=")
    parser.optionxform = str
    parser.read_string(metadata["entry_points.txt"].decode())
    assert parser["spacy_factories"]["elmo"].startswith("spacy_elmo.component")
    assert set(parser["spacy_cli"]) == {"elmo"}
