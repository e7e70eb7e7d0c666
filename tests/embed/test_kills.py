"""Killed at any file operation, a run leaves whole shards alone, and goes on to the
same bytes."""

import os
import random
import shutil
import signal
import sys
import time

import pytest

from spacy_elmo.embed import run
from spacy_elmo.embed.folder import UNFINISHED
from spacy_elmo.embed.shard import ShardWriter

from .corpora import SMALL, contents, embed_files, make_plan, shards, write_lines

STEPS = ("add", "finish")
EVENTS = {"open", "os.rename", "os.link", "os.mkdir", "os.remove", "os.rmdir"}

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="this system can't fork"
)


class Killer:
    """Counts the file operations of this process in a folder, and ends it at one."""

    def __init__(self, folder, at):
        self.folder, self.at, self.count = str(folder), at, 0
        sys.addaudithook(self.audit)
        for owner, name in [
            (os, "fsync"),
            (ShardWriter, "add"),
            (ShardWriter, "finish"),
        ]:
            setattr(owner, name, self.counted(getattr(owner, name)))

    def audit(self, event, args):
        if event in EVENTS and str(args[0]).startswith(self.folder):
            self.tick()

    def counted(self, function):
        def call(*args):
            self.tick()
            found = function(*args)
            self.tick()
            return found

        return call

    def tick(self):
        self.count += 1
        if self.count == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


def in_a_child(work):
    """Do something in a copy of this process. Return how it ended, and what it gave."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.write(write, str(work()).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    _, status = os.waitpid(child, 0)
    found = os.read(read, 1000).decode()
    os.close(read)
    return status, found


def embed(folder, text, output, at=0):
    killer = Killer(output, at)
    model = str(folder / "model")
    _, encoder = make_plan(model, [text], output, shard_mb=SMALL)
    run(output, encoder=encoder)
    return killer.count


def left_over(output):
    return [
        path.name for path in (output / UNFINISHED).iterdir() if path.name != "lock"
    ]


@pytest.mark.parametrize("step", [23, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_at_every_file_operation(tmp_path, step):
    text = write_lines(tmp_path / "a.txt", 30)
    expected = shards(embed_files(tmp_path, [text]))
    output = tmp_path / "out"
    status, count = in_a_child(lambda: embed(tmp_path, text, output))
    assert status == 0 and shards(output) == expected and int(count) > 30
    for at in range(1, int(count) + 1, step):
        shutil.rmtree(output)
        status, _ = in_a_child(lambda at=at: embed(tmp_path, text, output, at))
        assert status == signal.SIGKILL
        assert shards(output).items() <= expected.items()
        status, _ = in_a_child(lambda: embed(tmp_path, text, output))
        assert status == 0
        assert shards(output) == expected
        names = {"plan.json", ".unfinished/lock", *(f"shards/{n}" for n in expected)}
        assert set(contents(output)) == names


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path, n_kills):
    text = write_lines(tmp_path / "a.txt", 200)
    started = time.monotonic()
    expected = shards(embed_files(tmp_path, [text]))
    seconds, output = time.monotonic() - started, tmp_path / "out"
    choice = random.Random(0)
    for _ in range(n_kills):
        child = os.fork()
        if child == 0:
            embed(tmp_path, text, output)
            os._exit(0)
        time.sleep(choice.random() * seconds / 2)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert shards(output).items() <= expected.items()
    in_a_child(lambda: embed(tmp_path, text, output))
    assert shards(output) == expected and not left_over(output)


def test_two_runs_at_once(tmp_path):
    """Each shard once, whoever makes it; neither removes what the other is at."""
    text = write_lines(tmp_path / "a.txt", 100)
    expected = shards(embed_files(tmp_path, [text]))
    output, children = tmp_path / "out", []
    for _ in range(3):
        children.append(os.fork())
        if children[-1] == 0:
            status = 1
            try:
                embed(tmp_path, text, output)
                status = 0
            finally:
                os._exit(status)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    assert shards(output) == expected and not left_over(output)


def test_stopped_by_a_signal(tmp_path):
    """SIGTERM and Ctrl-C: nothing half is left, not even for the next run to remove."""
    text = write_lines(tmp_path / "a.txt", 2000)
    expected = shards(embed_files(tmp_path, [text]))
    for number in (signal.SIGTERM, signal.SIGINT):
        output = tmp_path / str(number)
        child = os.fork()
        if child == 0:
            # As in a terminal; processes that share out tests may ignore it.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                embed(tmp_path, text, output)
            except KeyboardInterrupt as stop:
                os._exit(3 if type(stop).__name__ == "Terminated" else 4)
            finally:
                os._exit(1)
        while not len(shards(output)) > 1:
            assert os.waitpid(child, os.WNOHANG) == (0, 0), "it ended by itself"
            time.sleep(0.01)
        os.kill(child, number)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == (3 if number == 15 else 4)
        assert 1 < len(shards(output)) < len(expected)
        assert shards(output).items() <= expected.items()
        assert not left_over(output)
