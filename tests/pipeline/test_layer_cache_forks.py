"""What a process that forks has of the layer cache of its parent."""

import multiprocessing
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from spacy_elmo.pipeline.cache import FileCache

from .test_layer_cache import MB, arrays


def test_connection_is_not_carried_into_a_fork(tmp_path):
    cache = FileCache(tmp_path / "layers", 64 * MB)
    stored = arrays(3)
    cache.write(stored)
    assert len(cache.read(list(stored))) == 3

    def read():
        opened, connect = [], sqlite3.connect
        sqlite3.connect = lambda *a, **k: opened.append(a) or connect(*a, **k)
        assert len(cache.read(list(stored))) == 3 and len(opened) == 1

    process = multiprocessing.get_context("fork").Process(target=read)
    process.start()
    process.join()
    assert process.exitcode == 0
    assert len(cache.read(list(stored))) == 3


READ_AND_FORK = """
import faulthandler, multiprocessing, os, sys, threading
from pathlib import Path
from spacy_elmo.pipeline.cache import FileCache
from spacy_elmo.pipeline.cache import MemoryCache
from tests.pipeline.test_layer_cache import MB, arrays

caches = [FileCache(Path(sys.argv[1]), 64 * MB), MemoryCache(64 * MB)]
stored = arrays(40)
for cache in caches:
    cache.write(stored)
stop = threading.Event()

def read():
    while not stop.is_set():
        for cache in caches:
            cache.read(list(stored))

def read_and_end(number):
    faulthandler.dump_traceback_later(60, exit=True)  # says where it waits
    for cache in caches:
        assert len(cache.read(list(stored))) == 40
    faulthandler.cancel_dump_traceback_later()  # it has a thread too
    if number:  # a fork can fork as well
        fork(number - 1)
    os._exit(0)

def fork(number):
    context = multiprocessing.get_context("fork")
    process = context.Process(target=read_and_end, args=(number,))
    process.start()
    process.join()
    print(process.exitcode, flush=True)

thread = threading.Thread(target=read, daemon=True)
thread.start()
for _ in range(12):
    fork(1)
stop.set()
thread.join()
"""


@pytest.mark.slow
def test_lock_of_a_thread_is_not_carried_into_a_fork(tmp_path):
    """A thread reads all the time; whatever it does at that moment, the fork can. In a
    process of its own: here, threads that other tests left may hold other locks."""
    done = subprocess.run(
        [sys.executable, "-c", READ_AND_FORK, str(tmp_path / "layers")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.split() == ["0"] * 24, done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_file_is_closed_in_a_fork(tmp_path):
    """SQLite's locks are of a process, and closing a file gives all of them up."""
    cache = FileCache(tmp_path / "layers", 64 * MB)
    cache.write(arrays(3))

    def look():
        folder = Path("/proc/self/fd")
        open_files = [os.path.realpath(fd) for fd in folder.iterdir()]
        assert not any(str(tmp_path) in name for name in open_files)

    process = multiprocessing.get_context("fork").Process(target=look)
    process.start()
    process.join()
    assert process.exitcode == 0


def test_importing_the_package_leaves_forks_alone(tmp_path):
    """And so does a cache in memory: it is files that must be closed before a fork."""
    code = f"""
import os, spacy, spacy_elmo.bilm.bilm
os.register_at_fork = None  # calling it raises
from pathlib import Path
from spacy_elmo.pipeline.cache import FileCache
from spacy_elmo.pipeline import Elmo
nlp = spacy.blank("xx")
elmo = nlp.add_pipe("elmo")
elmo.use_layer_cache("memory")
try:
    FileCache(Path({str(tmp_path)!r}) / "layers", 1 << 20)
except TypeError:
    print("watched")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert done.stdout == "watched\n"
