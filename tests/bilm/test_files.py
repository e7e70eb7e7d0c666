"""Round trips, and every kind of bad file: one message, nothing half written."""

import errno
import json
import os
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from spacy_elmo import BiLM, files
from spacy_elmo.bilm.softmax import make_softmax
from spacy_elmo.bilm.weights import fingerprint

from ..models import tiny_config

SENTENCES = [["The", "cat"], ["고양이", "가", "잔다", "."]]


def same_layers(a, b):
    return all(
        np.array_equal(x, y) for x, y in zip(a.encode(SENTENCES), b.encode(SENTENCES))
    )


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"n_layers": 3, "activation": "tanh", "cell_clip": None, "proj_clip": None},
        {"token_projection": False, "projection_dim": 16, "hidden_dim": 20},
        {"lstm_projection": False, "projection_dim": 12},
    ],
)
def test_round_trips_in_both_formats(tmp_path, changes):
    bilm = BiLM.random(
        tiny_config(**changes), seed=5, vocab=["<S>", "</S>", "<UNK>", "고양이"]
    )
    bilm.save(tmp_path / "own")
    bilm.save_bilm_tf(tmp_path / "tf")
    for folder in ("own", "tf"):
        loaded = BiLM.load(tmp_path / folder)
        assert loaded.config == bilm.config
        assert loaded.vocab == bilm.vocab
        assert fingerprint(loaded) == fingerprint(bilm)
        assert same_layers(loaded, bilm)


def test_written_hdf5_is_the_one_that_was_read(gold, tmp_path):
    """To the bit: names, shapes and values."""
    source = gold / "allennlp" / "test_fixtures_elmo"
    (tmp_path / "options.json").symlink_to(source / "options.json")
    (tmp_path / "weights.hdf5").symlink_to(source / "lm_weights.hdf5")
    BiLM.load(tmp_path).save_bilm_tf(tmp_path / "out")
    with (
        h5py.File(source / "lm_weights.hdf5") as theirs,
        h5py.File(tmp_path / "out" / "weights.hdf5") as ours,
    ):
        names = {"theirs": [], "ours": []}
        theirs.visititems(lambda n, d: names["theirs"].append(n))
        ours.visititems(lambda n, d: names["ours"].append(n))
        assert names["theirs"] == names["ours"]
        for name in names["ours"]:
            if isinstance(ours[name], h5py.Dataset):
                assert np.array_equal(ours[name][...], theirs[name][...])
                assert ours[name].dtype == np.float32


def test_half_precision_is_near_and_half_the_size(tiny, tmp_path):
    tiny.save(tmp_path / "full")
    tiny.save(tmp_path / "half", dtype="float16")
    sizes = [
        (tmp_path / n / "weights.safetensors").stat().st_size for n in ("full", "half")
    ]
    assert sizes[1] < 0.7 * sizes[0]
    for a, b in zip(
        BiLM.load(tmp_path / "half").encode(SENTENCES), tiny.encode(SENTENCES)
    ):
        assert 0 < abs(a - b).max() < 0.01


def test_word_input_round_trip(tmp_path):
    words = ["<S>", "</S>", "<UNK>", "The", "cat"]
    bilm = BiLM.random(tiny_config(n_words=len(words)), vocab=words)
    for folder, save in (("own", bilm.save), ("tf", bilm.save_bilm_tf)):
        save(tmp_path / folder)
        loaded = BiLM.load(tmp_path / folder)
        assert loaded.config.n_words == 5
        assert same_layers(loaded, bilm)
        (unknown, same), (known, _) = (
            loaded.encode([["dog"], ["<UNK>"]]),
            loaded.encode([["The"], ["cat"]]),
        )
        assert np.allclose(unknown, same, atol=1e-6)
        assert not np.allclose(unknown, known, atol=1e-2)


# -- own format -------------------------------------------------------------------


@pytest.fixture
def own(tiny, tmp_path):
    tiny.save(tmp_path / "model")
    return tmp_path / "model"


def edit_config(folder, **changes):
    header = json.loads((folder / "config.json").read_text())
    header["bilm"].update(changes.pop("bilm", {}))
    (folder / "config.json").write_text(json.dumps({**header, **changes}))


def edit_weights(folder, edit):
    arrays = load_file(folder / "weights.safetensors")
    edit(arrays)
    save_file(arrays, folder / "weights.safetensors")


def nan(arrays):
    arrays["forward_lstm.layers.0.bias"][3] = float("nan")


BIAS = "forward_lstm.layers.0.bias"
OWN = {
    "no folder": ("EL001", lambda f: (f / "config.json").unlink()),
    "no weights": ("EL001", lambda f: (f / "weights.safetensors").unlink()),
    "not json": ("EL002", lambda f: (f / "config.json").write_text("{")),
    "binary json": (
        "EL002",
        lambda f: (f / "config.json").write_bytes(b"\xff\xfe\x00"),
    ),
    "other json": ("EL003", lambda f: (f / "config.json").write_text("[1]")),
    "missing array": ("EL006", lambda f: edit_weights(f, lambda a: a.pop(BIAS))),
    "wrong shape": (
        "EL007",
        lambda f: edit_weights(f, lambda a: a.update({BIAS: torch.zeros(3)})),
    ),
    "sizes of another model": (
        "EL007",
        lambda f: edit_config(f, bilm={"hidden_dim": 13}),
    ),
    "huge sizes": ("EL007", lambda f: edit_config(f, bilm={"hidden_dim": 9_999_999})),
    "nan": (
        "EL008",
        lambda f: (edit_weights(f, nan), edit_config(f, fingerprint=None)),
    ),
    "integers": (
        "EL009",
        lambda f: edit_weights(
            f, lambda a: a.update({BIAS: torch.zeros(48, dtype=torch.int64)})
        ),
    ),
    "truncated": (
        "EL010",
        lambda f: os.truncate(f / "weights.safetensors", 500),
    ),
    "not safetensors": (
        "EL010",
        lambda f: (f / "weights.safetensors").write_bytes(b"\x80\x04pickle" * 100),
    ),
    "unknown array": (
        "EL011",
        lambda f: edit_weights(f, lambda a: a.update(extra=torch.zeros(2))),
    ),
    "changed weights": ("EL012", lambda f: edit_weights(f, lambda a: a[BIAS].add_(1))),
    "newer format": ("EL014", lambda f: edit_config(f, format=99)),
    "impossible sizes": ("EL020", lambda f: edit_config(f, bilm={"n_layers": -1})),
    "a million layers": ("EL020", lambda f: edit_config(f, bilm={"n_layers": 10**6})),
    "infinite filters": (
        "EL020",
        lambda f: edit_config(f, bilm={"filters": [[float("inf"), 3]]}),
    ),
    "no format": ("EL003", lambda f: edit_config(f, format=None)),
    "unknown setting": ("EL020", lambda f: edit_config(f, bilm={"colour": "red"})),
    "sizes of the wrong kind": (
        "EL020",
        lambda f: edit_config(f, bilm={"filters": "many"}),
    ),
}


@pytest.mark.parametrize("case", OWN)
def test_bad_own_files(own, case):
    code, damage = OWN[case]
    damage(own)
    with pytest.raises((ValueError, FileNotFoundError), match=code):
        BiLM.load(own)


@pytest.mark.parametrize(
    "changes",
    [
        {"activation": "gelu"},
        {"filters": []},
        {"filters": [[60, 3]]},
        {"cell_clip": -1},
        {"hidden_dim": 10**9},
        {"hidden_dim": 8.5},
        {"skip_connections": "yes"},
        {"token_projection": False},
        {"lstm_projection": False},
        {"n_characters": 261},
        {"max_characters": 2},
    ],
)
def test_impossible_sizes(changes):
    with pytest.raises(ValueError, match="EL020"):
        tiny_config(**changes)


# -- bilm-tf ----------------------------------------------------------------------


@pytest.fixture
def tf(tiny, tmp_path):
    tiny.save_bilm_tf(tmp_path / "tf")
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
    "truncated": ("EL004", lambda f: os.truncate(f / "weights.hdf5", 3000)),
    "not hdf5": (
        "EL004",
        lambda f: (f / "weights.hdf5").write_bytes(b"PK\x03\x04" * 999),
    ),
    "empty": ("EL004", lambda f: (f / "weights.hdf5").write_bytes(b"")),
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
    "damaged block": ("EL004", lambda f: damage_block(f)),
    "groups in a circle": ("EL006", lambda f: edit_hdf5(f, circle)),
    "link to another file": ("EL009", lambda f: edit_hdf5(f, external)),
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
    bilm.save_bilm_tf(tmp_path)
    (tmp_path / "vocab.txt").write_text("a\nb\n")
    with pytest.raises(ValueError, match="EL023"):
        BiLM.load(tmp_path)
    (tmp_path / "vocab.txt").unlink()
    with pytest.raises(ValueError, match="EL022"):
        BiLM.load(tmp_path)
    (tmp_path / "vocab.txt").write_bytes(b"\xff\xff")
    with pytest.raises(ValueError, match="EL003"):
        BiLM.load(tmp_path)


def test_what_bilm_tf_can_not_hold(tmp_path):
    for sizes in ({"forget_bias": 0.0}, {"hidden_dim": 6}, {"hidden_dim": 5}):
        bilm = BiLM.random(tiny_config(**sizes))
        with pytest.raises(ValueError, match="EL027"):
            bilm.save_bilm_tf(tmp_path)
    assert list(tmp_path.iterdir()) == []


# -- no space left ----------------------------------------------------------------


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("save", ["save", "save_bilm_tf"])
def test_full_disk_leaves_the_model_that_was_there(tiny, tmp_path, monkeypatch, save):
    getattr(tiny, save)(tmp_path)
    before = contents(tmp_path)
    other = BiLM.random(tiny_config(), seed=9)
    # Every file but the first goes to a device that is always full.
    real, n = files.fill_aside, iter(range(9))

    def full(write, aside):
        return real(write, aside) if next(n) == 0 else real(write, Path("/dev/full"))

    monkeypatch.setattr(files, "fill_aside", full)
    with pytest.raises(OSError, match="EL013") as raised:
        getattr(other, save)(tmp_path)
    assert raised.value.errno in (errno.ENOSPC, None)
    assert contents(tmp_path) == before


def test_rename_that_fails_half_way_brings_the_old_files_back(
    tiny, tmp_path, monkeypatch
):
    tiny.save(tmp_path)
    before, real = contents(tmp_path), os.replace

    def failing(source, target):
        if str(source).endswith("new") and Path(target).name == "config.json":
            raise OSError(errno.EIO, "broken")
        real(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(OSError, match="EL013"):
        BiLM.random(tiny_config(), seed=9).save(tmp_path)
    assert contents(tmp_path) == before
    monkeypatch.undo()
    assert same_layers(BiLM.load(tmp_path), tiny)


def test_saving_over_another_model_leaves_nothing_of_it(tiny, tmp_path):
    vocab = ["<S>", "</S>", "<UNK>", "a"]
    softmax = make_softmax(6, 4)
    BiLM.random(tiny_config(), vocab=vocab).save(tmp_path, softmax=softmax)
    (tmp_path / "card.json").write_text("{}")
    tiny.save(tmp_path)
    assert sorted(contents(tmp_path)) == ["config.json", "weights.safetensors"]
    tiny.save_bilm_tf(tmp_path / "tf")
    (tmp_path / "tf" / "weights.hdf5").rename(tmp_path / "tf" / "other.hdf5")
    with pytest.raises(ValueError, match="EL005"):
        tiny.save_bilm_tf(tmp_path / "tf")


def test_loaded_weights_are_not_the_file(tiny, tmp_path):
    """A file that is cut short later must not take the process down."""
    tiny.save(tmp_path)
    loaded = BiLM.load(tmp_path)
    os.truncate(tmp_path / "weights.safetensors", 10)
    assert same_layers(loaded, tiny)


def test_unknown_dtype(tiny, tmp_path):
    with pytest.raises(ValueError, match="EL028"):
        tiny.save(tmp_path, dtype="float64")


def test_more_settings_in_a_later_version(tiny, tmp_path):
    """A folder that was written before a setting was known loads with its default."""
    tiny.save(tmp_path)
    header = json.loads((tmp_path / "config.json").read_text())
    del header["bilm"]["word_dim"], header["bilm"]["characters"]
    (tmp_path / "config.json").write_text(json.dumps(header))
    assert same_layers(BiLM.load(tmp_path), tiny)


def test_folder_that_can_not_be_made(tiny, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="EL013"):
        tiny.save(tmp_path / "file" / "model")


def test_saved_files_are_readable_as_others_are(tiny, tmp_path):
    tiny.save(tmp_path)
    (tmp_path / "usual").write_text("")
    modes = {path.stat().st_mode for path in tmp_path.iterdir()}
    assert len(modes) == 1
