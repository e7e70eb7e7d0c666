"""The same vectors on any number of threads, in forks and spawned processes."""

import multiprocessing
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.kernels.forced import force
from spacy_elmo.machine import numpy_on_one_thread, thread_count
from spacy_elmo.machine.threads import at_once, numpy_functions

SIZES = BiLMConfig(hidden_dim=64, projection_dim=32, filters=((1, 16), (3, 48)))
SENTENCES = [[f"w{i * j % 7}" for i in range(j)] for j in (3, 9, 5, 17, 1, 12)]


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def tiny():
    return BiLM.random(SIZES, seed=1)


def encode(bilm):
    with force(directions="two_threads"):
        return bilm.encode(SENTENCES)


def close(a, b):
    return all(x == pytest.approx(y, abs=1e-6) for x, y in zip(a, b, strict=True))


def test_each_gets_half_of_the_threads_and_all_come_back():
    torch.set_num_threads(6)
    both = threading.Barrier(2, timeout=20)  # passed only if they run at once

    def task():
        both.wait()
        return torch.get_num_threads(), threading.get_ident()

    (n_first, first), (n_second, second) = at_once(task, task)
    assert n_first == n_second == 3 and first != second
    assert torch.get_num_threads() == 6


@pytest.mark.parametrize("fails", ["first", "second"])
def test_errors_come_through_and_threads_come_back(fails):
    def task(name):
        if name == fails:
            raise RuntimeError(name)

    with pytest.raises(RuntimeError, match=fails):
        at_once(lambda: task("first"), lambda: task("second"))
    assert torch.get_num_threads() == 2


def in_a_new_thread(task):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(task).result()


def test_a_thread_that_comes_meanwhile_keeps_its_number():
    with thread_count(1):
        assert torch.get_num_threads() == 1
        assert in_a_new_thread(torch.get_num_threads) == 2
    assert torch.get_num_threads() == 2
    assert at_once(lambda: in_a_new_thread(torch.get_num_threads), int) == (2, 0)


@pytest.mark.parametrize("directions", ["one_thread", "two_threads"])
def test_threads_that_come_while_others_encode(directions):
    """Web servers start a thread for each request."""
    bilm, ends = tiny(), time.monotonic() + 2
    found = set()

    def work():
        while time.monotonic() < ends:
            with force(directions=directions):
                bilm.encode(SENTENCES)

    with ThreadPoolExecutor(2) as pool:
        workers = [pool.submit(work) for _ in range(2)]
        while time.monotonic() < ends:
            found.add(in_a_new_thread(torch.get_num_threads))
        for worker in workers:
            worker.result()
    assert found == {2}


def test_threads_changed_at_run_time():
    bilm = tiny()
    expected = encode(bilm)
    for n in (2, 3, 4):
        torch.set_num_threads(n)
        assert close(encode(bilm), expected)
        assert torch.get_num_threads() == n
    torch.set_num_threads(1)
    assert close(bilm.encode(SENTENCES), expected)


def test_many_threads_of_the_user_on_one_model():
    """The cache is so small that they are in each other's way."""
    bilm = tiny()
    expected = encode(bilm)
    bilm.token_cache = type(bilm.token_cache)(5)
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda _: close(encode(bilm), expected), range(60)))


def test_numpy_keeps_its_threads():
    """A single sentence is multiplied by NumPy, on the thread that asks for it."""
    get, set_number = numpy_functions()
    before = get()
    set_number(2)
    several, bilm = get(), tiny()
    with numpy_on_one_thread():
        assert get() == 1
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: bilm.encode(SENTENCES[:1]), range(40)))
        assert get() == 1
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: bilm.encode(SENTENCES[:1]), range(40)))
    assert get() == several
    set_number(before)


def test_words_are_shared_among_threads():
    """Two threads take parts of many words, and none twice."""
    bilm, sentences = tiny(), [[f"w{i}" * (i % 5) for i in range(1, 700)]]
    found = {}
    for exact in (False, True):
        for n in (1, 2):
            torch.set_num_threads(n)
            found[exact, n] = bilm.set_exact(exact).encode(sentences)
    assert close(found[False, 1], found[False, 2])
    assert (found[True, 1][0] == found[True, 2][0]).all()
    torch.set_num_threads(2)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        bilm.compute_token_vectors(sentences[0])


def encode_in_child(bilm, queue):
    queue.put((bilm.encode(SENTENCES), torch.get_num_threads()))


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_in_other_processes(how):
    """After this one has used its threads, which no fork has."""
    if how == "fork" and not hasattr(os, "fork"):
        pytest.skip("no fork on this system")
    bilm = tiny()
    expected = encode(bilm)
    torch.randn(500, 500) @ torch.randn(500, 500)
    # Work enough for torch to share it among threads.
    bilm.token_cache.clear()
    bilm.encode([[f"word{i}" for i in range(3000)]])
    context = multiprocessing.get_context(how)
    queue = context.Queue()
    child = context.Process(target=encode_in_child, args=(bilm, queue))
    child.start()
    found, n_threads = queue.get(timeout=120)
    child.join(60)
    assert child.exitcode == 0 and close(found, expected)
    if how == "fork":
        assert n_threads == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_waits_for_threads_that_compute():
    """Locks of oneDNN that they hold would be held for ever in the new process."""
    bilm, inside, go_on = tiny(), threading.Event(), threading.Event()

    def wait_inside(*_):
        inside.set()
        assert go_on.wait(20)

    bilm.token_encoder.register_forward_pre_hook(wait_inside)
    with ThreadPoolExecutor(2) as pool:
        reading = pool.submit(bilm.encode, SENTENCES)
        assert inside.wait(20)
        pool.submit(lambda: (time.sleep(0.5), go_on.set()))
        child = os.fork()
        if child == 0:
            os._exit(0 if go_on.is_set() else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert len(reading.result()) == len(SENTENCES)
