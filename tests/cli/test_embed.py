"""`spacy elmo embed ...`, as a user runs it."""

import json
import signal
import subprocess
import sys
import time

import pytest

from spacy_elmo import embed

from ..embed.corpora import SMALL, save_model, shards, write_lines
from .test_cli import run


@pytest.fixture
def folder(tmp_path):
    save_model(tmp_path / "model")
    write_lines(tmp_path / "a.txt")
    return tmp_path


def arguments(folder, output, *more):
    inputs = [folder / "model", folder / "a.txt", "-o", folder / output]
    return [*inputs, "--shard-mb", SMALL, *more]


def test_a_plan_that_is_there_is_not_changed_unsaid(folder):
    out = folder / "vectors"
    run("embed", "run", *arguments(folder, "vectors"))
    said = run("embed", "run", "-o", out, "--pool", "doc", "--lang", "ko", fails=True)
    assert "EL222" in said and "--pool" in said and "--lang" in said
    assert "nothing left" in run("embed", "run", "-o", out, "--n-process", "1")
    (out / "shards" / ".DS_Store").touch()
    assert (
        json.loads(run("embed", "status", out, "--json"))["jobs"]
        == len(shards(out)) - 1
    )


def test_plan_run_status_verify_repair(folder):
    out = folder / "vectors"
    said = run("embed", "plan", *arguments(folder, "vectors"))
    assert "are free" in said and "tokens/s" in said and shards(out) == {}
    assert " tokens in" in run("embed", "run", *arguments(folder, "vectors"))
    expected = shards(out)
    status = json.loads(run("embed", "status", out, "--json"))
    assert status["jobs"] == status["all_jobs"] == len(expected) > 1
    assert status["relative_error"] == 0
    said = run("embed", "status", out)
    assert f"{len(expected)} of {len(expected)}" in said and "rounding" in said
    assert "recomputed" in run("embed", "verify", out, "--full")
    (out / "shards" / min(expected)).write_bytes(b"damaged")
    assert "EL208" in run("embed", "verify", out, fails=True)
    assert "Removed 1 shards" in run("embed", "repair", out)
    assert shards(out) == expected


def test_a_share_of_the_work_needs_the_folder_alone(folder):
    out = folder / "vectors"
    run("embed", "plan", *arguments(folder, "vectors", "--save-precision", "int8"))
    for part in (3, 1, 2):
        run("embed", "run", "-o", out, "--share", f"{part}/3")
    assert len(embed.open(out)) == 60
    status = json.loads(run("embed", "status", out, "--json"))
    assert 0 < status["relative_error"] < 0.02
    for share in ("4/3", "0/3", "three", "1"):
        said = run("embed", "run", "-o", out, "--share", share, fails=True)
        assert "EL207" in said
    assert "EL214" in run("embed", "run", "-o", folder / "nowhere", fails=True)
    assert "EL201" in run("embed", "run", *arguments(folder, "vectors"), fails=True)


@pytest.mark.slow
def test_stopped_by_sigterm(folder):
    """With two processes, each of which is at work."""
    write_lines(folder / "a.txt", 3000)
    command = [sys.executable, "-m", "spacy", "elmo", "embed", "run"]
    command += map(str, arguments(folder, "vectors", "-n", "2", "--shard-mb", "0.02"))
    run = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    out = folder / "vectors"
    while len(shards(out)) < 3 and run.poll() is None:
        time.sleep(0.05)
    run.send_signal(signal.SIGTERM)
    output, error = run.communicate(timeout=60)
    assert run.returncode == 143, (output, error)
    found = len(shards(out))
    assert [path.name for path in (out / ".unfinished").iterdir()] == ["lock"]
    time.sleep(1)
    assert len(shards(out)) == found  # nobody is at work any more
    subprocess.run(command, check=True, capture_output=True)
    assert embed.verify(out).problems == []


@pytest.mark.parametrize(
    "ray", [["--ray"], ["--ray", "--threads", "1"], ["--ray=auto"]]
)
def test_ray_without_an_address(folder, monkeypatch, ray):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "EL211" in run("embed", "run", *arguments(folder, "o", *ray), fails=True)
