"""Whatever stands where a file is expected: one error, at once."""

import os
import shutil
from pathlib import Path

import h5py
import pytest
import spacy

from spacy_elmo import BiLM
from spacy_elmo.bilm import weights as files
from spacy_elmo.bilm.objectives import FILE, FullSoftmax, load
from spacy_elmo.embed.plan import read_plan
from spacy_elmo.embed.shard import read_shard
from spacy_elmo.errors import ElmoError
from spacy_elmo.models import read_card, started_from, tokens_read
from spacy_elmo.pretrain import checkpoint
from spacy_elmo.pretrain.config import read_config
from spacy_elmo.text import Request, describe, prepare, read_lines
from spacy_elmo.text.shards import read_manifest

from ..models import tiny_config
from ..pipelines import add_elmo

VOCAB = ["<S>", "</S>", "<UNK>", "a"]


@pytest.fixture
def folder(tmp_path):
    bilm = BiLM.random(tiny_config(), vocab=VOCAB)
    bilm.save(tmp_path / "own", softmax=FullSoftmax(6, 4), card={"note": "made here"})
    bilm.save(tmp_path / "bilm-tf", format="bilm-tf")
    return tmp_path


def pipe(path):
    os.mkfifo(path)


def link_to_device(path):
    path.symlink_to("/dev/zero")


NAMES = [
    *(f"own/{name}" for name in ("config.json", "weights.safetensors", "vocab.txt")),
    *(f"own/{name}" for name in (FILE, "card.json")),
    *(f"bilm-tf/{name}" for name in ("options.json", "weights.hdf5")),
]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX")
@pytest.mark.parametrize("make", [pipe, link_to_device, Path.mkdir])
@pytest.mark.parametrize("name", NAMES)
def test_no_plain_file(folder, name, make):
    path = folder / name
    path.unlink()
    make(path)
    with pytest.raises(ValueError, match=r"EL002.*not a file"):
        read_all(path)


def read_all(path):
    BiLM.load(path.parent)
    load(path.parent / FILE, 6, 4)
    read_card(path.parent)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX")
@pytest.mark.parametrize("make", [pipe, link_to_device, Path.mkdir])
@pytest.mark.parametrize("name", ["pipeline", "vectors", "shard", "config", "manifest"])
def test_no_plain_file_of_others(tmp_path, name, make):
    """A saved component, a plan and a shard of vectors, a training configuration, the
    manifest of a prepared corpus."""
    read, path, code = {
        "pipeline": (spacy.load, tmp_path / "elmo" / "model", "EL002"),
        "vectors": (read_plan, tmp_path / "plan.json", "EL202"),
        "shard": (lambda _: read_shard(path), tmp_path / "0", "EL208"),
        "manifest": (read_manifest, tmp_path / "manifest.json", "EL041"),
        "config": (lambda _: read_config(path), tmp_path / "a.cfg", "EL037"),
    }[name]
    if name == "pipeline":
        nlp = spacy.blank("xx")
        add_elmo(nlp)
        nlp.to_disk(tmp_path)
        path.unlink()
    make(path)
    with pytest.raises(ValueError, match=f"{code}.*not a file"):
        read(tmp_path)


@pytest.mark.parametrize("damaged", [b"", b"\xc1", b"\x81\xa5nodes\x93"])
def test_saved_component_that_is_none(tmp_path, damaged):
    """What reads msgpack, and Thinc, have errors of their own."""
    nlp = spacy.blank("xx")
    elmo = add_elmo(nlp)
    nlp.to_disk(tmp_path)
    (tmp_path / "elmo" / "model").write_bytes(damaged)
    with pytest.raises(ValueError, match=r"EL002.*elmo component"):
        spacy.load(tmp_path)
    with pytest.raises(ValueError, match=r"EL002.*elmo component"):
        elmo.from_bytes(damaged)
    again = spacy.load(tmp_path, exclude=["elmo"])
    add_elmo(again).from_disk(tmp_path / "elmo", exclude=["model", "vocab"])


@pytest.mark.parametrize("how", ["load", "from_disk", "from_bytes"])
@pytest.mark.parametrize(
    "place",
    [
        (BiLM, "from_stored"),
        (BiLM, "set_precision"),
        ("spacy_elmo.bilm.config.BiLMConfig", "from_dict"),
    ],
)
def test_a_fault_of_ours_is_no_damaged_file(tmp_path, monkeypatch, how, place):
    nlp = spacy.blank("xx")
    elmo = add_elmo(nlp)
    nlp.to_disk(tmp_path)
    data = elmo.to_bytes()

    def faulty(*_, **__):
        raise AttributeError("a fault of ours")

    target, name = place
    if isinstance(target, str):
        monkeypatch.setattr(f"{target}.{name}", faulty)
    else:
        monkeypatch.setattr(target, name, faulty)
    read = {
        "load": lambda: spacy.load(tmp_path),
        "from_disk": lambda: elmo.from_disk(tmp_path / "elmo", exclude=["vocab"]),
        "from_bytes": lambda: elmo.from_bytes(data),
    }[how]
    with pytest.raises(AttributeError, match=r"^a fault of ours$"):
        read()


def unreadable(path):
    path.write_text("a b c\n")
    path.chmod(0)


def as_nobody(work):
    """Do some work in a process without root's permissions. Return its error: the code,
    and the message."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            work()
        except (OSError, ValueError) as error:
            os.write(writer, f"{error.code}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        return file.read().decode()


def read_checkpoint(path):
    checkpoint.read_progress(path.parent)


READERS = {
    "text.txt": (lambda path: list(read_lines(path)), "EL030"),
    "text.jsonl.gz": (lambda path: list(read_lines(path)), "EL030"),
    "source.txt": (
        lambda path: prepare([path], path.parent / "out", Request(), progress=False),
        "EL030",
    ),
    "input.jsonl": (describe, "EL030"),
    checkpoint.FILE: (read_checkpoint, "EL046"),
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX")
@pytest.mark.parametrize("make", [pipe, link_to_device, Path.mkdir, unreadable])
@pytest.mark.parametrize("name", READERS)
def test_no_plain_file_of_text(tmp_path, name, make):
    """Text, inputs of `embed`, checkpoints: no hang, and one coded error."""
    read, code = READERS[name]
    tmp_path.chmod(0o755)
    for parent in list(tmp_path.parents)[:3]:
        parent.chmod(0o755)
    make(tmp_path / name)
    if name == "source.txt" and make is Path.mkdir:
        code = "EL232"  # a folder of texts, which has none
    assert as_nobody(lambda: read(tmp_path / name)).startswith(f"{code}: ")


@pytest.mark.parametrize("name", ["config.json", "vocab.txt", "card.json"])
def test_larger_than_any(folder, name):
    os.truncate(folder / "own" / name, 1 << 40)
    with pytest.raises(ValueError, match=r"EL002.*larger than"):
        read_all(folder / "own" / name)


def test_folder_without_permission(folder, monkeypatch):
    def exists(path, **_):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", exists)
    with pytest.raises(ValueError, match=r"EL002.*Permission denied"):
        files.load(folder / "own")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[]", "EL003"),
        ("{", "EL002"),
        ('{"tokens_seen": "many"}', "EL003"),
        ('{"started_from": "en_elmo_sm"}', "EL003"),
        ('{"started_from": {"text": {}, "tokens_seen": [1]}}', "EL003"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*ELW52")
def test_card_that_is_none(folder, text, code):
    (folder / "own" / "card.json").write_text(text)
    with pytest.raises(ValueError, match=rf"{code}.*card\.json"):
        started_from(folder / "own")


@pytest.mark.filterwarnings("ignore:.*ELW52")
def test_a_card_by_hand_may_leave_out_how_much_was_read(folder):
    (folder / "own" / "card.json").write_text('{"text": {}, "tokens_seen": null}')
    card = read_card(folder / "own")
    assert tokens_read({"tokens_seen": 3, "started_from": card}) == 3


def test_bits_of_an_hdf5_file(folder):
    """Types that NumPy does not have, among others: every byte of the first header."""
    path = folder / "bilm-tf" / "weights.hdf5"
    whole = path.read_bytes()
    with h5py.File(path) as file:
        start = min(
            each.id.get_offset() for each in file.values() if hasattr(each, "shape")
        )
    known = BiLM.load(path).fingerprint()
    shutil.rmtree(folder / "own")
    said = []
    for at in range(0, min(start, 4000), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 128]) + whole[at + 1 :])
        try:
            assert BiLM.load(path).fingerprint() == known
        except ElmoError as error:
            said.append(error.code)
    assert said
