"""Several processes make the same files as one, whatever happens to them."""

import os
import random
import shutil
import sys
import threading
import time
from contextlib import suppress

import psutil
import pytest

from spacy_elmo.embed import Options, make_plan, run, verify
from spacy_elmo.embed.runs import Outcome

from .corpora import SMALL, embed_files, shards, write_lines


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("processes")


@pytest.fixture(scope="module")
def expected(folder):
    return shards(embed_files(folder, [write_lines(folder / "a.txt", 400)]))


def plan(folder, output):
    text, options = [str(folder / "a.txt")], Options(shard_mb=SMALL)
    make_plan(str(folder / "model"), text, output, options)
    return output


def workers():
    """Processes of a run: not what Python itself starts beside them."""
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.Error):  # it has ended just now
            if "spawn_main" in " ".join(child.cmdline()):
                found.append(child)
    return found


def kill_whoever_writes(output, pattern):
    for path in (output / ".unfinished").glob(f"*/{pattern}"):
        for worker in workers():
            with suppress(psutil.Error):
                if str(path) in [file.path for file in worker.open_files()]:
                    worker.kill()


def test_two_processes(folder, expected, tmp_path):
    output = plan(folder, tmp_path / "out")
    found = run(output, processes=2)
    assert shards(output) == expected and found.aside == []
    assert found.tokens == sum(verify(output).counts[name] for name in ["tokens"])
    assert run(output, processes=2) == Outcome(0)
    assert not workers()


@pytest.mark.slow
def test_workers_that_are_killed(folder, expected, tmp_path, n_kills):
    """At random moments; each time another one takes over, and no shard is lost."""
    choice, kills, output = random.Random(0), 0, tmp_path / "out"
    while kills < n_kills:
        shutil.rmtree(output, ignore_errors=True)
        plan(folder, output)
        embedding = threading.Thread(target=run, args=[output], kwargs={"processes": 2})
        embedding.start()
        before = 0
        while embedding.is_alive():
            time.sleep(0.3 * choice.random())
            found = len(shards(output))
            if found > before and kills < n_kills:  # it gets somewhere
                before = found
                with suppress(psutil.Error, IndexError):
                    choice.choice(workers()).kill()
                    kills += 1
        run(output)  # what was set aside because it was hit three times
        assert shards(output) == expected


@pytest.mark.slow
def test_a_job_that_kills_its_workers_is_set_aside(folder, expected, tmp_path):
    """Its shard is not made; the others are, and the next run makes it."""
    texts = [write_lines(tmp_path / f"{i}.txt", 3 + 4000 * (i == 1)) for i in range(3)]
    output, stop = tmp_path / "out", []
    make_plan(str(folder / "model"), texts, output, Options(shard_mb=1))

    def kill():
        while not stop:
            with suppress(FileNotFoundError):  # it was removed just now
                kill_whoever_writes(output, "00000001.*")
            time.sleep(0.01)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        aside = run(output, processes=2).aside
    finally:
        stop.append(True)
        thread.join()
    assert aside == [1]
    assert set(shards(output)) == {f"{n:08d}.safetensors" for n in (0, 2)}
    run(output)
    assert verify(output).problems == []


@pytest.mark.slow
def test_workers_that_can_not_start(folder, expected, tmp_path):
    output, stop = plan(folder, tmp_path / "out"), []

    def kill():
        while not stop:
            with suppress(psutil.Error):
                for worker in workers():
                    worker.kill()
            time.sleep(0.01)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        with pytest.raises(OSError, match="EL212"):
            run(output, processes=2)
    finally:
        stop.append(True)
        thread.join()
    assert shards(output) == {}


@pytest.mark.slow
def test_what_a_worker_raises_is_raised(folder, expected, tmp_path):
    bad = tmp_path / "bad.txt"
    write_lines(bad, 200)
    output = tmp_path / "out"
    options = Options(shard_mb=SMALL)
    make_plan(str(folder / "model"), [str(bad)], output, options)
    stat = bad.stat()
    data = bytearray(bad.read_bytes())
    data[len(data) // 2] = 0
    bad.write_bytes(data)
    os.utime(bad, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(ValueError, match="EL031"):
        run(output, processes=2)
    assert not workers()


def test_ray_that_is_missing(folder, expected, tmp_path, monkeypatch):
    output = plan(folder, tmp_path / "out")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"EL211.*spacy-elmo\[ray\]"):
        run(output, ray="local")
