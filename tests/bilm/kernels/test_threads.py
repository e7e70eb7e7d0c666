"""The same vectors on any number of threads, in forks and spawned processes."""

import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.kernels import threads
from spacy_elmo.bilm.kernels.threads import side_by_side

from ...models import EVEN_SIZES

SENTENCES = [[f"w{i * j % 7}" for i in range(j)] for j in (3, 9, 5, 17, 1, 12)]
ENOUGH = threads.LEAST_WORK


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def tiny():
    return BiLM.random(EVEN_SIZES, seed=1)


def close(a, b):
    return all(x == pytest.approx(y, abs=1e-6) for x, y in zip(a, b, strict=True))


def test_each_gets_half_of_the_threads_and_all_come_back():
    torch.set_num_threads(6)
    both = threading.Barrier(2, timeout=20)  # passed only if they run at once

    def task():
        both.wait()
        return torch.get_num_threads(), threading.get_ident()

    (n_first, first), (n_second, second) = side_by_side(task, task, ENOUGH)
    assert n_first == n_second == 3 and first != second
    assert torch.get_num_threads() == 6


def test_little_work_stays_on_one_thread():
    def task():
        return torch.get_num_threads(), threading.get_ident()

    assert side_by_side(task, task, ENOUGH - 1) == ((1, threading.get_ident()),) * 2
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("fails", ["first", "second"])
def test_errors_come_through_and_threads_come_back(fails):
    def task(name):
        if name == fails:
            raise RuntimeError(name)

    with pytest.raises(RuntimeError, match=fails):
        side_by_side(lambda: task("first"), lambda: task("second"), ENOUGH)
    assert torch.get_num_threads() == 2


def test_threads_changed_at_run_time(monkeypatch):
    monkeypatch.setattr(threads, "LEAST_WORK", 1)
    bilm = tiny()
    expected = bilm.encode(SENTENCES)
    for n in (1, 2, 3, 1, 4):
        torch.set_num_threads(n)
        assert close(bilm.encode(SENTENCES), expected)
        assert torch.get_num_threads() == n


def test_many_threads_of_the_user_on_one_model(monkeypatch):
    """The cache is so small that they are in each other's way."""
    monkeypatch.setattr(threads, "LEAST_WORK", 1)
    bilm = tiny()
    expected = bilm.encode(SENTENCES)
    bilm.token_cache = type(bilm.token_cache)(5)

    def run(_):
        return close(bilm.encode(SENTENCES), expected)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(60)))


def encode_in_child(bilm, queue):
    queue.put(bilm.encode(SENTENCES))


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_in_other_processes(how, monkeypatch):
    """After this one has used its threads, which no fork has."""
    if how == "fork" and not hasattr(os, "fork"):
        pytest.skip("no fork on this system")
    monkeypatch.setattr(threads, "LEAST_WORK", 1)
    bilm = tiny()
    expected = bilm.encode(SENTENCES)
    torch.randn(500, 500) @ torch.randn(500, 500)
    context = multiprocessing.get_context(how)
    queue = context.Queue()
    child = context.Process(target=encode_in_child, args=(bilm, queue))
    child.start()
    found = queue.get(timeout=120)
    child.join(60)
    assert child.exitcode == 0 and close(found, expected)
