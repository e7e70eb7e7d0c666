"""A Ray cluster makes the same files as one process, whatever happens to its nodes.

In a network namespace of its own: outside one Ray insists on the machine's own address,
and several nodes of one machine would meet those of others.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spacy_elmo.embed import run, verify

from .corpora import SMALL, embed_files, make_plan, shards, write_lines

ROOT = Path(__file__).parents[2]
NAMESPACE = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def namespaces():
    pytest.importorskip("ray", reason="Ray is not installed (extra ray)")
    try:
        subprocess.run([*NAMESPACE, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"network namespaces are not allowed here ({error})")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ray")


@pytest.fixture(scope="module")
def expected(folder):
    return shards(embed_files(folder, [write_lines(folder / "a.txt", 400)]))


def start(output, *how):
    """Start a driver, with a home of its own for what Ray writes there."""
    module = ["-m", "tests.embed.ray_driver"]
    return subprocess.Popen(
        [*NAMESPACE, sys.executable, *module, str(output), *how],
        cwd=ROOT,
        env={**os.environ, "HOME": str(output.parent), "RAY_TMPDIR": "/tmp"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def on_ray(output, *how):
    driver = start(output, *how)
    found, error = driver.communicate(timeout=900)
    assert driver.returncode == 0, error[-3000:]
    return json.loads(found.splitlines()[-1])


def plan(folder, output, text="a.txt", **options):
    options = {"shard_mb": SMALL, **options}
    make_plan(str(folder / "model"), [str(folder / text)], output, **options)
    return output


def test_local_ray(folder, expected, tmp_path):
    output = plan(folder, tmp_path / "out")
    assert on_ray(output, "local")["aside"] == []
    assert shards(output) == expected


def test_a_node_is_killed_and_another_added(folder, expected, tmp_path):
    output = plan(folder, tmp_path / "out")
    assert on_ray(output, "nodes")["aside"] == []
    assert shards(output) == expected


def test_a_driver_that_is_killed_and_started_again(folder, expected, tmp_path):
    output = plan(folder, tmp_path / "out")
    driver = start(output, "local")
    try:
        while len(shards(output)) < 2:
            assert driver.poll() is None
            time.sleep(0.05)
    finally:
        driver.kill()
        driver.communicate()
    assert shards(output).items() < expected.items()
    assert on_ray(output, "local")["aside"] == []
    assert shards(output) == expected


def test_a_job_that_kills_its_workers_is_set_aside(folder, expected, tmp_path):
    write_lines(folder / "b.txt", 4000)
    output = plan(folder, tmp_path / "out", "b.txt", shard_mb=0.06)
    assert on_ray(output, "victim", "1")["aside"] == [1]
    assert "00000001.safetensors" not in shards(output) and len(shards(output)) > 1
    run(output)
    assert verify(output).problems == []


def test_actors_that_are_killed(tmp_path, n_kills):
    """At random moments; each time another one takes over, and no shard is lost."""
    size = {"shard_mb": 0.02}  # seconds of work, so that there is a time to kill in
    text = write_lines(tmp_path / "a.txt", 4000 * n_kills)
    expected = shards(embed_files(tmp_path, [text], **size))
    kills, output = 0, tmp_path / "out"
    while kills < n_kills:  # a run may end before there were so many
        shutil.rmtree(output, ignore_errors=True)
        plan(tmp_path, output, text, **size)
        found = on_ray(output, "kills", str(n_kills - kills))["kills"]
        assert found > 0
        kills += found
        run(output)  # what was set aside because it was hit three times
        assert shards(output) == expected
