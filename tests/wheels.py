"""The wheel, built once for all processes of a test run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from filelock import FileLock

ROOT = Path(__file__).parents[1]
IGNORED = shutil.ignore_patterns(
    ".*", "__pycache__", "build", "dist", "*.egg-info", "*.so"
)
# What workflows read and make, gigabytes.
DATA = {"corpus", "training", "metrics"}


def ignored(folder, names):
    data = DATA if Path(folder) in (ROOT, ROOT / "experiments") else set()
    return IGNORED(folder, names) | data & set(names)


def shared_folder(factory):
    """Return a folder that all processes of this test run share."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"{os.getpid()}")
    folder = factory.getbasetemp().parent / f"wheels-{run}"
    folder.mkdir(exist_ok=True)
    return folder


def build(factory):
    """Return the folder with wheel and sdist, built from a copy of the clone, and the
    wheel of tests/extension_package."""
    folder = shared_folder(factory)
    dist, source = folder / "dist", folder / "source"
    with FileLock(folder / "build.lock"):
        if not dist.exists():
            shutil.copytree(ROOT, source, ignore=ignored, symlinks=True)
            made = folder / "made"
            extension = source / "tests" / "extension_package"
            for what in ([source], ["--wheel", extension]):
                command = ["-m", "build", "-o", made, *what]
                subprocess.run(
                    [sys.executable, *command], check=True, capture_output=True
                )
            made.rename(dist)
    return dist


def fresh_python(factory):
    """Return the Python of an environment in which the wheels are installed, beside the
    packages that this one has."""
    folder, dist = shared_folder(factory), build(factory)
    environment = folder / "environment"
    python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    with FileLock(folder / "environment.lock"):
        if not (folder / "installed").exists():
            command = [sys.executable, "-m", "venv", "--without-pip", environment]
            subprocess.run(command, check=True)
            code = "import sysconfig; print(sysconfig.get_path('purelib'))"
            said = subprocess.check_output([python, "-c", code], text=True)
            # Files such as this one are not read in those folders: what is installed
            # there in editable mode is not found.
            others = [path for path in sys.path if path.endswith("site-packages")]
            Path(said.strip(), "others.pth").write_text("\n".join(others))
            install = ["install", "--no-deps", "--no-index", *dist.glob("*.whl")]
            command = [sys.executable, "-m", "pip", "--python", python, *install]
            subprocess.run(command, check=True, capture_output=True)
            (folder / "installed").touch()
    return python
