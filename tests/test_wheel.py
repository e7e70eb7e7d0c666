"""The wheel holds the package with its models, and nothing else of the repository."""

import email
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest

import spacy_elmo
from spacy_elmo import models as shipped

from .project import PROJECT, ROOT
from .wheels import build

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    return build(tmp_path_factory)


@pytest.fixture(scope="module")
def wheel(dist):
    (path,) = dist.glob("spacy_elmo-*.whl")
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


LIBRARY = "spacy_elmo/bilm/kernels/native/_elmo"


def test_holds_nothing_but_package_models_and_licences(files):
    """Each file of the package is code, a model's, a template of a page, or the C
    library."""
    kinds = {".py", ".typed", ".html", ".css", ".js"}
    for name in files:
        path = Path(name)
        if path.parts[0].endswith(".dist-info"):
            assert "licenses" in path.parts or path.suffix in ("", ".txt"), name
        elif path.parts[1] != "models":
            assert path.suffix in kinds or name.startswith(LIBRARY), name
    licences = {Path(name).name for name in files if "/licenses/" in name}
    assert licences == set(PROJECT["license-files"])
    for name in licences:
        (packed,) = (n for n in files if n.endswith(f"/licenses/{name}"))
        assert files[packed] == (ROOT / name).read_bytes()


def test_the_index_takes_both(dist):
    found = sorted(dist.glob("spacy_elmo-*"))
    assert [path.suffix for path in found] == [".whl", ".gz"]
    check = [sys.executable, "-m", "twine", "check", "--strict", *found]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "FAILED" not in done.stdout, done.stdout


def test_the_sdist_holds_what_it_builds_from(dist, files):
    (path,) = dist.glob("spacy_elmo-*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    of_package = {name for name in files if name.startswith("spacy_elmo/")}
    assert {name for name in of_package if not name.startswith(LIBRARY)} <= names
    sources = (ROOT / "spacy_elmo" / "bilm" / "kernels" / "native").glob("*.[ch]")
    assert {path.relative_to(ROOT).as_posix() for path in sources} <= names
    assert "setup.py" in names and not {name for name in names if ".so" in name}
    assert {"pyproject.toml", "README.md", "CHANGELOG.md", "CITATION.cff"} <= names
    assert not {name for name in names if name.startswith(("tests", "experiments"))}


def test_is_for_one_system_and_all_versions_of_python(wheel, files):
    assert "-cp311-abi3-" in wheel.name and not wheel.name.endswith("-any.whl")
    libraries = [name for name in files if name.startswith(LIBRARY)]
    if shutil.which("cc") is None or os.name == "nt":
        pytest.skip("there is no C compiler that knows vectors as GCC and Clang do")
    assert [Path(name).name for name in libraries] == ["_elmo.abi3.so"]


def test_is_built_without_a_compiler_too(dist, tmp_path):
    """From the sdist; PyTorch computes then."""
    (sdist,) = dist.glob("spacy_elmo-*.tar.gz")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir"]
    environment = {**os.environ, "CC": "/bin/false"}
    subprocess.run([*command, tmp_path, sdist], check=True, env=environment)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert not [name for name in names if name.startswith(LIBRARY)]
    assert "spacy_elmo/bilm/kernels/native/__init__.py" in names


def test_holds_the_models(wheel, files):
    # English has vectors of words, and Korean has more words in its adaptive softmax.
    most = {"en_elmo_sm": 26_000_000, "ko_elmo_sm": 18_000_000}
    for model in shipped.MODELS.values():
        folder = shipped.FOLDER / model
        for path in folder.iterdir():
            assert files[f"spacy_elmo/models/{model}/{path.name}"] == path.read_bytes()
        assert sum(path.stat().st_size for path in folder.iterdir()) <= most[model]
    assert wheel.stat().st_size < 50_000_000


def test_has_the_metadata(files):
    """Without top_level.txt `spacy package` does not see the plug-in."""
    metadata = {name.split("/")[1]: files[name] for name in files if "info/" in name}
    assert metadata["top_level.txt"].split() == [b"spacy_elmo"]
    said = email.message_from_bytes(metadata["METADATA"])
    assert said["Version"] == spacy_elmo.__version__
    assert said["License-Expression"] == PROJECT["license"]
    assert said["Author"] == "The spacy-elmo developers"
    urls = dict(each.split(", ") for each in said.get_all("Project-URL"))
    assert urls == PROJECT["urls"]
    assert "Typing :: Typed" in said.get_all("Classifier")
    parser = ConfigParser(delimiters="=")
    parser.optionxform = str
    parser.read_string(metadata["entry_points.txt"].decode())
    assert parser["spacy_factories"]["elmo"].startswith("spacy_elmo.pipeline")
    assert set(parser["spacy_cli"]) == {"elmo"}
