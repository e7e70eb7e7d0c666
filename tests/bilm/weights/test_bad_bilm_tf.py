"""Every kind of bad file in the format of bilm-tf: one message."""

import json
import os

import h5py
import numpy as np
import pytest

from spacy_elmo import BiLM

from ...models import tiny_config


@pytest.fixture
def tf(tiny, tmp_path):
    tiny.save(tmp_path / "tf", format="bilm-tf")
    return tmp_path / "tf"


def edit_hdf5(folder, edit):
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        edit(file)


def edit_options(folder, edit):
    options = json.loads((folder / "options.json").read_text())
    edit(options)
    (folder / "options.json").write_text(json.dumps(options))


def replace(file, name, data):
    del file[name]
    file[name] = data


def external(file):
    del file["char_embed"]
    file["char_embed"] = h5py.ExternalLink("/etc/other.hdf5", "/x")


def sparse(file):
    """An array that was never written, and would be read as zeros."""
    shape = file["char_embed"].shape
    del file["char_embed"]
    file.create_dataset("char_embed", shape=shape, dtype="f4", chunks=shape)


def bomb(file):
    del file["char_embed"]
    shape = (10**7, 10**7)
    file.create_dataset("char_embed", shape, "f4", compression="gzip", chunks=(9, 9))


def two_names(file):
    """An array that would be read, and take memory, once for each of its names."""
    array = file["char_embed"][...]
    del file["char_embed"]
    file.create_dataset("char_embed", data=array, compression="gzip")
    file["char_embed_again"] = file["char_embed"]


def many(file):
    """Arrays that are each less than a hundred times as large as the file."""
    for n in range(3):
        file.create_dataset(
            f"zeros{n}", (90 * 64, 1024), "f4", compression="gzip", chunks=(64, 1024)
        )
    file.create_dataset("more", data=np.random.default_rng(0).random((64, 1024)))


def circle(file):
    del file["char_embed"]
    for name in "abcdefgh":
        file[name] = file["/"]


def damage_block(folder):
    edit_hdf5(folder, compress)
    path = folder / "weights.hdf5"
    content = path.read_bytes()
    at = content.index(MARK) + 5
    path.write_bytes(content[:at] + bytes(20) + content[at + 20 :])


MARK = b"x\x9c"  # how a zlib stream begins


def compress(file):
    array = file["char_embed"][...]
    del file["char_embed"]
    file.create_dataset(
        "char_embed", data=array, compression="gzip", compression_opts=6
    )


CELL = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell"
TF = {
    "no options": ("EL001", lambda f: (f / "options.json").unlink()),
    "no weights": ("EL001", lambda f: (f / "weights.hdf5").unlink()),
    "options not json": ("EL002", lambda f: (f / "options.json").write_text("lstm: 3")),
    "options of something else": (
        "EL003",
        lambda f: (f / "options.json").write_text("{}"),
    ),
    "a list as options": ("EL003", lambda f: (f / "options.json").write_text("[]")),
    "setting missing": (
        "EL003",
        lambda f: edit_options(f, lambda o: o["lstm"].pop("dim")),
    ),
    "setting of the wrong kind": (
        "EL003",
        lambda f: edit_options(f, lambda o: o.update(lstm=3)),
    ),
    "size of the wrong kind": (
        "EL0(03|20)",
        lambda f: edit_options(f, lambda o: o["lstm"].update(dim="big")),
    ),
    "truncated": ("EL002", lambda f: os.truncate(f / "weights.hdf5", 3000)),
    "not hdf5": (
        "EL002",
        lambda f: (f / "weights.hdf5").write_bytes(b"PK\x03\x04" * 999),
    ),
    "empty": ("EL002", lambda f: (f / "weights.hdf5").write_bytes(b"")),
    "two files": ("EL005", lambda f: (f / "b.hdf5").write_bytes(b"")),
    "array missing": ("EL006", lambda f: edit_hdf5(f, lambda h: h.pop(f"{CELL}/B"))),
    "no arrays": ("EL006", lambda f: edit_hdf5(f, lambda h: h.clear())),
    "wrong shape": (
        "EL007",
        lambda f: edit_hdf5(f, lambda h: replace(h, f"{CELL}/B", np.zeros(5, "f4"))),
    ),
    "wrong number of axes": (
        "EL007",
        lambda f: edit_hdf5(f, lambda h: replace(h, f"{CELL}/W_0", np.zeros(5, "f4"))),
    ),
    "other options": (
        "EL007",
        lambda f: edit_options(f, lambda o: o["lstm"].update(dim=13)),
    ),
    "options of a smaller model": (
        "EL006",
        lambda f: edit_options(f, lambda o: o["lstm"].update(n_layers=1)),
    ),
    "nan": (
        "EL008",
        lambda f: edit_hdf5(
            f, lambda h: h["CNN/b_cnn_0"].write_direct(np.full(4, np.nan, "f4"))
        ),
    ),
    "text": (
        "EL009",
        lambda f: edit_hdf5(f, lambda h: replace(h, "char_embed", np.array([b"no"]))),
    ),
    "empty array": (
        "EL009",
        lambda f: edit_hdf5(f, lambda h: replace(h, "char_embed", h5py.Empty("f4"))),
    ),
    "array that is not there": ("EL009", lambda f: edit_hdf5(f, sparse)),
    "array of petabytes": ("EL009", lambda f: edit_hdf5(f, bomb)),
    "array of two names": ("EL009", lambda f: edit_hdf5(f, two_names)),
    "arrays that are too large together": ("EL009", lambda f: edit_hdf5(f, many)),
    "damaged block": ("EL002", damage_block),
    "groups in a circle": ("EL002", lambda f: edit_hdf5(f, circle)),
    "link to another file": ("EL002", lambda f: edit_hdf5(f, external)),
}


@pytest.mark.parametrize("case", TF)
def test_bad_bilm_tf_files(tf, case):
    code, damage = TF[case]
    damage(tf)
    with pytest.raises((ValueError, FileNotFoundError), match=code):
        BiLM.load(tf)


def test_any_truncation_of_hdf5_is_refused_or_read_right(tiny, tf):
    whole = (tf / "weights.hdf5").read_bytes()
    for size in range(0, len(whole), max(1, len(whole) // 40)):
        (tf / "weights.hdf5").write_bytes(whole[:size])
        with pytest.raises(ValueError, match="EL00"):
            BiLM.load(tf)


def test_word_input_without_or_with_a_wrong_vocabulary(tmp_path):
    bilm = BiLM.random(tiny_config(n_words=5), vocab=list("abcde"))
    bilm.save(tmp_path, format="bilm-tf")
    (tmp_path / "vocab.txt").write_text("a\nb\n")
    with pytest.raises(ValueError, match="EL003"):
        BiLM.load(tmp_path)
    (tmp_path / "vocab.txt").unlink()
    with pytest.raises(ValueError, match="EL022"):
        BiLM.load(tmp_path)
    (tmp_path / "vocab.txt").write_bytes(b"\xff\xff")
    with pytest.raises(ValueError, match="EL002"):
        BiLM.load(tmp_path)


def test_what_bilm_tf_can_not_hold(tmp_path):
    for sizes in (
        {"forget_bias": 0.0},
        {"hidden_dim": 6},
        {"hidden_dim": 5},
        {"filters": ((1, 2), (2, 4))},  # they sum to the projection
    ):
        bilm = BiLM.random(tiny_config(**sizes))
        with pytest.raises(ValueError, match="EL027"):
            bilm.save(tmp_path, format="bilm-tf")
    assert list(tmp_path.iterdir()) == []
