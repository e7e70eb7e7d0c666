"""What is in the wheel."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from spacy_elmo import models as shipped

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_wheel_holds_the_model(tmp_path):
    """And its metadata, without which `spacy package` does not see the plug-in."""
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "spacy_elmo", source / "spacy_elmo")
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "-o",
        str(tmp_path),
        str(source),
    ]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for model in shipped.MODELS.values():
        assert f"spacy_elmo/models/{model}/weights.safetensors" in names
        folder = shipped.FOLDER / model
        assert sum(path.stat().st_size for path in folder.iterdir()) <= 16_000_000
    assert wheel.stat().st_size < 60_000_000
    assert "spacy_elmo/py.typed" in names
    assert any(name.endswith("top_level.txt") for name in names)
    assert all(name.startswith("spacy_elmo") for name in names)
