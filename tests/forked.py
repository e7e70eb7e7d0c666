"""Work in processes that were started from one that has computed with several threads.

`python -m tests.forked WAY FOLDER` does all work here and in other processes, started
in a way of WAYS, with two threads and with four. It fails if the results differ.
"""

import ctypes
import faulthandler
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

PATIENCE = 400  # seconds, after which a process says where it waits, and ends
# Enough rows and columns that PyTorch shares each kind of work out among threads.
SIZES = {"hidden_dim": 128, "projection_dim": 64, "filters": ((1, 16), (3, 48))}
LENGTHS = (2, 24, 2000)
WORDS = [f"word{i * i % 701}" for i in range(max(LENGTHS))]
TEXTS = [" ".join(WORDS[:n]) for n in LENGTHS]


def build() -> Any:
    """A pipeline with a tagger that listens to a random biLM, and its optimizer."""
    import spacy
    from spacy.training import Example

    from spacy_elmo.bilm.config import BiLMConfig

    from .pipelines import TAGGER, add_elmo

    nlp = spacy.blank("xx")
    add_elmo(nlp, sizes=BiLMConfig(**SIZES))
    nlp.add_pipe("tagger", config=TAGGER)
    doc = nlp.make_doc(" ".join(WORDS[:200]))
    examples = [Example.from_dict(doc, {"tags": [f"T{i % 3}" for i in range(200)]})]
    return nlp, examples, nlp.initialize(lambda: examples)


def read(nlp: Any, folder: Path) -> list[float]:
    """Sums over all that a pipeline predicts, by each of its caches."""
    from spacy_elmo import similarity

    found = []
    elmo = nlp.get_pipe("elmo")
    for cache in (None, "memory", folder / f"layers{os.getpid()}"):
        elmo.use_layer_cache(cache)
        docs = list(nlp.pipe(TEXTS))
        found += [float(doc.tensor.sum()) for doc in docs]
        found += [float(doc._.elmo.layers.sum()) for doc in docs]
    found.append(similarity(docs[0], docs[1], layer=1))
    layers = elmo.bilm.encode([WORDS, WORDS[:2]], start="boundary")
    found += [float(each.sum()) for each in layers]
    return [*found, float(elmo.bilm.encode_stateful([WORDS[:50]] * 40)[0][3].sum())]


def learn(nlp: Any, examples: list[Any], optimizer: Any) -> list[float]:
    """Losses of a frozen biLM and of one that learns."""
    found = []
    nlp.get_pipe("elmo").use_layer_cache(None)
    for frozen in (True, False):
        nlp.get_pipe("elmo").frozen = frozen
        found.append(nlp.update(examples, sgd=optimizer, drop=0.0)["tagger"])
    nlp.evaluate(examples)
    return [*found, float(len(nlp.to_bytes()))]


def embed(folder: Path) -> list[float]:
    """Sums over the vectors of a corpus, in two processes and in this one."""
    from spacy_elmo import embed
    from spacy_elmo.bilm.bilm import BiLM
    from spacy_elmo.bilm.config import BiLMConfig
    from spacy_elmo.embed.model import Computing

    folder = Path(tempfile.mkdtemp(dir=folder))
    BiLM.random(BiLMConfig(**SIZES)).save(folder / "model")
    (folder / "a.txt").write_text("\n".join(TEXTS))
    found = []
    for processes in (1, 2):
        output = folder / f"vectors{processes}"
        options = embed.Options(computing=Computing(threads=2))
        embed.make_plan(folder / "model", [folder / "a.txt"], output, options)
        embed.run(output, processes=processes)
        found.append(sum(float(d.vectors.sum()) for d in embed.open(output)))
    return found


class Work:
    """All that is done in both processes, with a pipeline that they share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.nlp, self.examples, self.optimizer = build()

    def __call__(self) -> list[float]:
        found = read(self.nlp, self.folder)
        return found + learn(*build())


def check(found: list[float], expected: list[float]) -> None:
    for a, b in zip(found, expected, strict=True):
        assert abs(a - b) <= 1e-3 * max(1.0, abs(b)), (a, b)


def in_child(fork: Callable[[], int], action: Callable[[], object]) -> None:
    """Do something in a child, and wait until it has succeeded."""
    child = fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(PATIENCE)
            action()
            status = 0
        except BaseException:  # noqa: BLE001 (a child must not go on as its parent)
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def fork(work: Work) -> None:
    """A child, and a child of that."""
    expected = work()
    again = lambda: in_child(os.fork, lambda: check(work(), expected))  # noqa: E731
    in_child(os.fork, lambda: (check(work(), expected), again()))
    check(work(), expected)


def fork_and_embed(work: Work) -> None:
    expected = embed(work.folder)
    in_child(os.fork, lambda: check(embed(work.folder), expected))


def fork_in_a_thread(work: Work) -> None:
    expected = work()

    def run() -> None:
        check(work(), expected)
        in_child(os.fork, lambda: check(work(), expected))

    with ThreadPoolExecutor(1) as threads:
        threads.submit(run).result()


def threads_in_the_child(work: Work) -> None:
    """As a server answers requests."""
    expected = work()

    def run() -> None:
        for _ in range(2):
            with ThreadPoolExecutor(1) as threads:
                check(threads.submit(work).result(), expected)
        check(work(), expected)

    in_child(os.fork, run)


def child_sets_threads(work: Work) -> None:
    """After the fork, to more than there were before."""
    import torch

    expected, n = work(), torch.get_num_threads() + 1

    def run() -> None:
        torch.set_num_threads(n)
        check(work(), expected)
        torch.set_num_threads(n)
        check(work(), expected)

    in_child(os.fork, run)


def fork_in_c(work: Work) -> None:
    """A fork that Python does not hear of, as those of uWSGI."""
    import torch

    expected, n = work(), torch.get_num_threads()

    def run() -> None:
        check(work(), expected)
        torch.set_num_threads(n)
        check(work(), expected)

    in_child(ctypes.PyDLL(None).fork, run)


def call_in_c(work: Work) -> None:
    """As above, and the child first calls the biLM itself, with a state so large that
    PyTorch fills it on several threads."""
    import torch

    from spacy_elmo.bilm.encode import pack

    bilm = work.nlp.get_pipe("elmo").bilm
    batch = pack([[word] for word in WORDS[:200]])
    least = 32_768  # numbers that PyTorch fills on one thread
    assert 200 * bilm.config.n_layers * bilm.config.hidden_dim > least

    def call() -> list[float]:
        found = []
        for gradient in (False, True):
            with torch.set_grad_enabled(gradient):
                found.append(float(bilm(batch)[0].detach().sum()))
        return found

    expected = call()
    in_child(ctypes.PyDLL(None).fork, lambda: check(call(), expected))


def only_loaded(work: Work) -> None:
    """The parent has computed with PyTorch, and not yet with this package."""
    import torch

    torch.randn(500, 500) @ torch.randn(500, 500)
    torch.zeros(1 << 20).sum()
    in_child(os.fork, work)


def pool(work: Work) -> None:
    global _shared
    _shared, expected = work, work()
    with multiprocessing.get_context("fork").Pool(1) as processes:
        check(processes.apply_async(_call_shared).get(PATIENCE), expected)


_shared: Callable[[], list[float]]


def _call_shared() -> list[float]:
    return _shared()


def n_process(work: Work, method: str) -> None:
    """nlp.pipe in several processes."""
    import spacy.language

    expected = work()
    work.nlp.get_pipe("elmo").use_layer_cache(None)
    spacy.language.mp = multiprocessing.get_context(method)
    docs = work.nlp.pipe(TEXTS * 2, n_process=2, batch_size=2)
    check([float(doc.tensor.sum()) for doc in docs], expected[: len(TEXTS)] * 2)


WAYS: dict[str, Callable[[Work], None]] = {
    "fork": fork,
    "fork_and_embed": fork_and_embed,
    "fork_in_a_thread": fork_in_a_thread,
    "threads_in_the_child": threads_in_the_child,
    "child_sets_threads": child_sets_threads,
    "fork_in_c": fork_in_c,
    "call_in_c": call_in_c,
    "only_loaded": only_loaded,
    "pool": pool,
    "n_process_fork": lambda work: n_process(work, "fork"),
    "n_process_forkserver": lambda work: n_process(work, "forkserver"),
    "n_process_spawn": lambda work: n_process(work, "spawn"),
}


def imported_later(folder: Path, threads: int) -> None:
    """The parent has computed with PyTorch, and the package is new to the child."""
    import torch

    torch.set_num_threads(threads)
    torch.randn(500, 500) @ torch.randn(500, 500)
    torch.zeros(1 << 20).sum()

    def run() -> None:
        work = Work(folder)
        expected = work()
        torch.set_num_threads(threads)
        check(work(), expected)

    in_child(os.fork, run)


def preloaded(folder: Path, threads: int) -> None:
    """The server that forks has computed before."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.forked_preload"])
    os.environ["OMP_NUM_THREADS"] = str(threads)
    with context.Pool(1) as processes:
        found, expected = processes.apply_async(_both).get(PATIENCE)
    check(found, expected)


def _both() -> tuple[list[float], list[float]]:
    from . import forked_preload

    return forked_preload.work(), forked_preload.expected


if __name__ == "__main__":
    # Not faulthandler's own timer, whose thread a fork waits for.
    faulthandler.register(signal.SIGALRM, chain=True)
    signal.alarm(2 * PATIENCE)
    way, folder = sys.argv[1], Path(sys.argv[2])
    for n_threads in (2, 4):
        if way in ("imported_later", "preloaded"):
            globals()[way](folder, n_threads)
            continue
        import torch

        torch.set_num_threads(n_threads)
        WAYS[way](Work(folder))
