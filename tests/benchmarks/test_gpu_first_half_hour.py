"""Both stages of the first half hour run to their end on a CPU, without what a bare
machine lacks, and go on after steps that fail, die or take too long."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from benchmarks.gpu import bundle, runner, trace
from benchmarks.gpu.page import write_page

ROOT = Path(__file__).parents[2]
# A package that raises ImportError, in the place of one that a bare machine lacks.
MISSING = ("spacy", "thinc", "cupy", "blis", "srsly")


def run(stage, output, *options, site=None):
    paths = [str(site)] if site else []
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([*paths, str(ROOT)])
    command = [sys.executable, "-m", "benchmarks.gpu_first_half_hour", stage]
    command += ["--device", "cpu", "--tiny", "--output", str(output), *options]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    results = json.loads((output / f"{stage}.json").read_text())
    errors = [result["error"] for result in results if "error" in result]
    assert (done.returncode == 0) == (not errors), done.stdout + done.stderr
    assert not errors, errors[0]
    assert "## " + results[-1]["step"] in (output / f"{stage}.md").read_text()
    return {result["step"]: result["tables"] for result in results}


@pytest.mark.slow
def test_the_first_stage_without_spacy(tmp_path):
    for name in MISSING:
        (tmp_path / "site" / name).mkdir(parents=True)
        (tmp_path / "site" / name / "__init__.py").write_text("raise ImportError\n")
    found = run("bilm", tmp_path / "out", "--seconds", "900", site=tmp_path / "site")
    assert list(found) == [step.name for step in runner.steps_of("bilm")]
    (rows,) = found["vectors"].values()
    assert max(row["error"] for row in rows) < 1e-5
    (row,) = found["kill_and_resume"]["killed and resumed"]
    assert 0 < row["killed after step"] < row["ended after step"] == row["of"]
    alone, *launched = found["torchrun"]["one process"]
    assert [row["exit code"] for row in (alone, *launched)] == [0, 0, 0]
    for row in launched:
        assert alone["last loss"] == pytest.approx(row["last loss"])


@pytest.mark.slow
def test_the_second_stage(tmp_path):
    found = run("pipeline", tmp_path / "out", "--seconds", "900")
    assert list(found) == [step.name for step in runner.steps_of("pipeline")]
    (rows,) = found["doc_tensor"].values()
    assert max(row["error / largest value"] for row in rows) == 0
    (row,) = found["pipe"]["words/s"]
    assert all(n > 0 for n in list(row.values())[2:])


STEPS = """
import os, time
from benchmarks.gpu.runner import Step

def works(context): return {"a table": [{"left": context.left() > 0}]}
def fails(context): raise ValueError("an error")
def dies(context): os._exit(7)
def never_ends(context): time.sleep(1000)
def works_again(context): return {}

STEPS = [Step(f, 1) for f in (works, fails, dies, never_ends, works_again)]
"""


@pytest.mark.slow
def test_a_stage_goes_on_whatever_becomes_of_a_step(tmp_path):
    package = tmp_path / "benchmarks" / "gpu"
    package.mkdir(parents=True)
    for name in ("runner.py", "page.py", "__init__.py"):
        text = (ROOT / "benchmarks" / "gpu" / name).read_text()
        # So that the test takes seconds.
        (package / name).write_text(text.replace("GRACE = 5.0", "GRACE = 0.5"))
    (package / "made_up.py").write_text(STEPS)
    (package.parent / "__init__.py").write_text("")
    shutil.copy(ROOT / "benchmarks" / "speed.py", package.parent)
    stage = runner.Stage("made_up", "cpu", tmp_path, tiny=False, seconds=300)
    found = runner.run_stage(stage, tmp_path, ROOT)
    assert [result["step"] for result in found] == [
        "works", "fails", "dies", "never_ends", "works_again"
    ]  # fmt: skip
    ends = ["", "an error", "made_up.log", "made_up.log", ""]
    for result, end in zip(found, ends, strict=True):
        assert result.get("error", "").strip().endswith(end)
    page = (tmp_path / "made_up.md").read_text()
    assert "| left |" in page and "died with exit code 7" in page and "too long" in page


def test_what_a_gpu_did_is_read_from_a_trace():
    def event(kind, name, at, took, **args):
        return {"cat": kind, "name": name, "ts": at, "dur": took, "args": args}

    events = [
        event("kernel", "gemm", 10, 10),
        event("kernel", "cell", 15, 10),  # beside it, on another stream
        event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 45, 5, bytes=80),
        event("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 25, 5, bytes=8),
        event("cuda_runtime", "cudaStreamSynchronize", 20, 5),
        event("cpu_op", "aten::mm", 0, 50),
        {"ph": "M", "name": "process_name"},
    ]
    found = trace.summary(events, tokens=4)
    assert found == {"kernels a token": 0.5, "kernels": 2, "idle": 0.375, "ms": 0.04}
    assert trace.copies_and_waits(events) == [
        {"what": "Memcpy HtoD (Pinned -> Device)", "times": 1, "bytes": 80},
        {"what": "cudaStreamSynchronize", "times": 1, "bytes": 0},
    ]
    assert trace.longest(events, 1)[0]["share"] == pytest.approx(1 / 3)
    assert trace.summary([], 1)["idle"] is None


def test_a_bundle_is_found_by_python(tmp_path):
    (tmp_path / "bundle").mkdir()
    with zipfile.ZipFile(tmp_path / "bundle" / "x.whl", "w", zipfile.ZIP_LZMA) as wheel:
        wheel.writestr("from_the_bundle.py", "N = 3\n")
    site = tmp_path / "site"
    bundle.unpack(tmp_path / "bundle", site, ROOT)
    code = "import from_the_bundle\nfrom importlib.metadata import distribution\n"
    code += (
        f"where = distribution('spacy-elmo').locate_file('')\nassert {str(site)!r} == "
    )
    code += "str(where), where\nfrom importlib.metadata import entry_points\n"
    code += "assert 'elmo' in entry_points(group='spacy_factories').names\n"
    environment = {**os.environ, "PYTHONPATH": str(site)}
    # Not here, where an installation of the clone may have left its own metadata.
    command = [sys.executable, "-c", code]
    subprocess.run(command, env=environment, cwd=tmp_path, check=True)


def test_the_tree_leaves_room_for_the_bundle():
    """16 MB of wheels, and what may be carried."""
    assert bundle.tree_size(ROOT) + 16_000_000 < bundle.MOST


def test_a_page_has_a_column_for_each_name(tmp_path):
    rows = [{"a": 1234.5, "b": None}, {"c": "x|y\nz", "a": 0.00012345}]
    write_page(tmp_path / "page.md", "stage", [{"step": "s", "tables": {"t": rows}}])
    page = (tmp_path / "page.md").read_text()
    assert "| a | b | c |" in page
    assert "| 1,234 | - | - |" in page and "| 0.000123 | - | x\\|y z |" in page
