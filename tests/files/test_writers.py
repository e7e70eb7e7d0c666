"""Every writer of files, killed at each operation on files and on a disk that is full:
what its reader finds, with no repair, is the old or the new, and whole."""

import os
import signal
import sys
from typing import NamedTuple

import pytest
import spacy

from spacy_elmo import BiLM
from spacy_elmo.bilm.objectives import FullSoftmax
from spacy_elmo.errors import Errors
from spacy_elmo.models import read_card
from spacy_elmo.pretrain import checkpoint
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.pretrain.optimizers import adam
from spacy_elmo.text import Request, prepare
from spacy_elmo.text.shards import open_corpus

from ..models import tiny_config
from ..pipelines import add_elmo

VOCAB = ["<S>", "</S>", "<UNK>", "a", "고양이"]
NAMES = ["model", "checkpoint", "component", "prepared text"]


class Writer(NamedTuple):
    """Writes one of two things into a folder, by its number, and reads which it is."""

    write: object
    read: object


def bilm_of(number):
    return BiLM.random(tiny_config(), seed=number, vocab=VOCAB)


def writer(name, tmp_path):
    if name == "model":
        return Writer(
            lambda folder, n: bilm_of(n).save(
                folder, softmax=FullSoftmax(6, len(VOCAB)), card={"number": n}
            ),
            read_model,
        )
    if name == "checkpoint":
        return Writer(save_checkpoint, read_checkpoint)
    if name == "component":
        components = {n: component(n) for n in (1, 2)}
        return Writer(
            lambda folder, n: components[n].to_disk(folder, exclude=["vocab"]),
            lambda folder: read_component(folder, components),
        )
    for n in (1, 2):
        (tmp_path / f"{n}.txt").write_text(f"Text {n} 고양이 .\n" * n * 30)
    return Writer(
        lambda folder, n: prepare(
            [tmp_path / f"{n}.txt"], folder, Request(), overwrite=True, progress=False
        ),
        lambda folder: open_corpus(folder).n_tokens // 120,
    )


def read_model(folder):
    bilm = LanguageModel.load(folder).bilm
    (n,) = (n for n in (1, 2) if bilm_of(n).fingerprint() == bilm.fingerprint())
    assert read_card(folder)["number"] == n
    return n


def save_checkpoint(folder, n):
    model = LanguageModel(bilm_of(n), FullSoftmax(6, len(VOCAB)))
    optimizers = adam().make(dict(model.named_parameters()), {})
    state = model.bilm.zero_state(2)
    progress = {"step": n, "n_steps": 9, "seconds": 1.0, "recent": []}
    progress |= {"identity": {}, "results": {}}
    checkpoint.save(folder, model, optimizers, state, progress)


def read_checkpoint(folder):
    n = checkpoint.read_progress(folder)["step"]
    model = LanguageModel(bilm_of(7), FullSoftmax(6, len(VOCAB)))
    checkpoint.load(folder, model, adam().make(dict(model.named_parameters()), {}))
    assert model.bilm.fingerprint() == bilm_of(n).fingerprint()
    return n


def component(n):
    return add_elmo(spacy.blank("xx"), seed=n)


def read_component(folder, components):
    found = component(7).from_disk(folder, exclude=["vocab"]).fingerprint()
    (n,) = (n for n in (1, 2) if components[n].fingerprint() == found)
    return n


# -- killed -----------------------------------------------------------------------

OPERATIONS = ("open", "os.rename", "os.remove", "os.link", "os.mkdir", "os.rmdir",
              "os.truncate", "shutil.rmtree", "shutil.copyfile")  # fmt: skip


def killed_at(n, folder, work):
    """Do some work in a process that ends by SIGKILL before its n-th operation on files
    of a folder. Return whether it was killed before it was done."""
    child = os.fork()
    if child == 0:
        left = iter(range(n))

        def at_each(event, args):
            if event not in OPERATIONS or str(folder) not in repr(args):
                return
            if event == "open" and not args[2] & (os.O_WRONLY | os.O_RDWR):
                return
            if next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.addaudithook(at_each)
            work()
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 (nothing may come back)
            os.write(2, f"{error!r}\n".encode())
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
@pytest.mark.parametrize(
    "name", [*NAMES[:-1], pytest.param(NAMES[-1], marks=pytest.mark.slow)]
)
@pytest.mark.slow
def test_killed_at_every_operation(name, tmp_path):
    write, read = writer(name, tmp_path)
    n, found, killed = 0, set(), True
    while killed:
        folder = tmp_path / f"{n} killed"
        write(folder, 1)
        killed = killed_at(n, folder, lambda: write(folder, 2))  # noqa: B023
        found.add(read(folder))
        write(folder, 2)
        assert read(folder) == 2
        n += 1
    assert n > 5 and found == {1, 2}


# -- full disks -------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="no limits of a process")
@pytest.mark.parametrize("name", NAMES)
def test_no_room(name, tmp_path):
    import resource

    write, read = writer(name, tmp_path)
    folder = tmp_path / "folder"
    write(folder, 1)
    before = {path.name for path in folder.iterdir()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for most in (0, 50, 2000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
        try:
            with pytest.raises(Errors.EL013, match="File too large"):
                write(folder, 2)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert read(folder) == 1
    write(folder, 2)
    assert read(folder) == 2 and {path.name for path in folder.iterdir()} == before
