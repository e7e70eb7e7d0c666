"""The C library, built with the address and undefined-behaviour sanitizers, passes its
own tests: it reads and writes nothing but what it was given."""

import os
import runpy
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
NATIVE = ROOT / "spacy_elmo" / "bilm" / "kernels" / "native"
# Loaded when Python starts, in place of the library that is installed.
SITE = """
import importlib.util, sys
name = "spacy_elmo.bilm.kernels.native._elmo"
spec = importlib.util.spec_from_file_location(name, {path!r})
sys.modules[name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[name])
"""


def runtime():
    """Return the sanitizer's own library, which has to be loaded first."""
    if not sys.platform.startswith("linux") or shutil.which("gcc") is None:
        pytest.skip("needs gcc on Linux")
    command = ["gcc", "-print-file-name=libasan.so"]
    found = subprocess.check_output(command, text=True).strip()
    if not Path(found).is_absolute():
        pytest.skip("gcc has no libasan")
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        pytest.skip("Python's headers are not installed")
    return found


def build(folder):
    """Build the library with sanitizers. Return its path."""
    made = runpy.run_path(str(NATIVE / "build.py"))
    made["ffi"].emit_c_code(str(folder / "_elmo.c"))
    sources = [folder / "_elmo.c", *(NATIVE / f"{name}.c" for name in made["SOURCES"])]
    sanitize = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    include = [f"-I{path}" for path in (NATIVE, sysconfig.get_path("include"))]
    flags = [*made["FLAGS"], "-g", *sanitize, *include, "-fPIC", "-shared", "-pthread"]
    output = folder / "_elmo.abi3.so"
    subprocess.run(["gcc", *flags, *sources, "-o", output], check=True)
    return output


def run(folder, *command):
    environment = {
        **os.environ,
        "LD_PRELOAD": runtime(),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python's own
        "PYTHONPATH": str(folder),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, *command]
    return subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    runtime()
    folder = tmp_path_factory.mktemp("sanitizers")
    code = SITE.format(path=str(build(folder)))
    (folder / "sitecustomize.py").write_text(code)
    return folder


def test_a_read_out_of_bounds_is_noticed(folder):
    """Or a pass would say nothing: more steps than there are batch sizes."""
    code = (
        "import torch\n"
        "from spacy_elmo.bilm.kernels import native\n"
        "library, sizes = native.best(), torch.tensor([1])\n"
        "task = library.new('elmo_reading', n_steps=9000, batch_sizes=sizes)\n"
        "library.call('read', task)\n"
    )
    done = run(folder, "-c", code)
    assert done.returncode and "AddressSanitizer" in done.stderr, done.stderr


def test_the_library_passes_its_tests(folder):
    tests = Path(__file__).with_name("test_native.py")
    done = run(folder, "-m", "pytest", "-v", "-x", "-p", "no:cacheprovider", tests)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert "passed" in done.stdout
