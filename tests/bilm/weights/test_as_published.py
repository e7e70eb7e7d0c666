"""Files as people have them: marks of editors, broken words, zips, dumps of one layer,
and messages that name the cause."""

import gzip
import inspect
import json
import warnings
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from spacy_elmo import BiLM
from spacy_elmo.bilm import weights as files
from spacy_elmo.bilm.objectives import FullSoftmax
from spacy_elmo.models import read_card, started_from

from ...cli.test_cli import run
from ...models import same_layers, tiny_config
from ..many_langs import save_many_langs

WORDS = ["<S>", "</S>", "<UNK>", "cat"]


@pytest.fixture
def tf(tmp_path):
    bilm = BiLM.random(tiny_config(), seed=1, vocab=WORDS)
    bilm.save(tmp_path / "tf", format="bilm-tf")
    return tmp_path / "tf"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
def test_options_and_words_with_marks(tf, tiny, encoding):
    for name in ("options.json", "vocab.txt"):
        text = (tf / name).read_text()
        mark = "\ufeff" if encoding == "utf-16-be" else ""
        text = mark + text.replace("\n", "\r\n")
        (tf / name).write_bytes(text.encode(encoding))
    bilm = BiLM.load(tf)
    assert same_layers(bilm, tiny) and bilm.vocab == WORDS


def test_our_own_files_with_marks(tiny, tmp_path):
    """A mark is no damage: what the checksum is of is the text."""
    tiny.save(tmp_path)
    path = tmp_path / "config.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert same_layers(BiLM.load(tmp_path), tiny)


@pytest.mark.parametrize("content", [b"\xff\xff\xfd", b"caf\xe9\n"])
def test_broken_words_beside_a_model_of_characters(tf, tiny, content):
    (tf / "vocab.txt").write_bytes(content)
    with pytest.warns(UserWarning, match=r"ELW61.*EL002.*vocab\.txt") as found:
        bilm = BiLM.load(tf)
    assert found[0].filename == inspect.getfile(BiLM)
    assert same_layers(bilm, tiny) and bilm.vocab is None


def test_words_without_an_entry_for_others(tmp_path):
    config = tiny_config(n_words=3)
    BiLM.random(config, vocab=["a", "b", "c"]).save(tmp_path / "tf", format="bilm-tf")
    with pytest.warns(UserWarning, match=r"ELW62.*<UNK>.*'a'"):
        BiLM.load(tmp_path / "tf")
    (tmp_path / "tf/vocab.txt").write_text("a\n<UNK>\nc\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BiLM.load(tmp_path / "tf")


def test_a_dump_of_one_layer(tmp_path):
    """TensorFlow does not wrap one cell, so dump_weights names it in another way."""
    bilm = BiLM.random(tiny_config(n_layers=1), seed=1)
    bilm.save(tmp_path, format="bilm-tf")
    with h5py.File(tmp_path / "weights.hdf5", "r+") as file:
        for rnn in ("RNN_0", "RNN_1"):
            cell = f"{rnn}/RNN/MultiRNNCell/Cell0/LSTMCell"
            file.move(cell, f"{rnn}/RNN/LSTMCell")
            del file[f"{rnn}/RNN/MultiRNNCell"]
    assert same_layers(BiLM.load(tmp_path), bilm)
    assert files.read_config(tmp_path) == bilm.config


def test_one_layer_under_two_names(tmp_path):
    BiLM.random(tiny_config(n_layers=1)).save(tmp_path, format="bilm-tf")
    with h5py.File(tmp_path / "weights.hdf5", "r+") as file:
        file["RNN_0/RNN/LSTMCell/B"] = np.zeros(48, "f4")
    with pytest.raises(ValueError, match=r"EL006.*twice"):
        BiLM.load(tmp_path)


def test_one_direction(tf):
    options = json.loads((tf / "options.json").read_text())
    (tf / "options.json").write_text(json.dumps({**options, "bidirectional": False}))
    with pytest.raises(ValueError, match=r"EL167.*bidirectional"):
        BiLM.load(tf)


@pytest.mark.parametrize("rows", [200, 262, 300])
def test_characters_that_are_not_bytes(tf, rows):
    with h5py.File(tf / "weights.hdf5", "r+") as file:
        del file["char_embed"]
        file["char_embed"] = np.zeros((rows, 4), "f4")
    with pytest.raises(ValueError, match=rf"EL163.*{rows} characters"):
        BiLM.load(tf)


def test_more_characters_are_not_written(tmp_path):
    with pytest.raises(ValueError, match=r"EL027.*300 characters"):
        BiLM.random(tiny_config(n_characters=300)).save(tmp_path, format="bilm-tf")


def test_other_endings(tf, tiny):
    (tf / "weights.hdf5").rename(tf / "model.h5")
    assert same_layers(BiLM.load(tf), tiny)
    assert same_layers(BiLM.load(tf / "model.h5"), tiny)
    with pytest.raises(ValueError, match=r"EL005.*model\.h5"):
        tiny.save(tf, format="bilm-tf")
    packed = tf / "model.hdf5.gz"
    packed.write_bytes(gzip.compress((tf / "model.h5").read_bytes()))
    (tf / "model.h5").unlink()
    for path in (tf, packed):
        with pytest.raises(ValueError, match=r"EL168.*model\.hdf5\.gz.*gunzip"):
            BiLM.load(path)
    packed.unlink()
    with pytest.raises(FileNotFoundError, match=r"EL001.*model\.hdf5\.gz"):
        BiLM.load(packed)


@pytest.mark.parametrize("ending", ["tar.gz", "tgz", "tar", "tar.xz", "tar.bz2"])
def test_an_archive_is_to_be_unpacked(tmp_path, ending):
    path = tmp_path / f"elmo_3.{ending}"
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=r"EL168.*elmo_3.*tar xf"):
        BiLM.load(path)


def test_unknown_settings_are_told_from_known_ones():
    with pytest.raises(ValueError, match=r"EL020.*'colour'; there are hidden_dim"):
        tiny_config(colour=1, HIDDEN=3)


# -- zips -------------------------------------------------------------------------


def pack(folder, path, where="", **more):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in sorted(folder.iterdir()):
            archive.write(each, where + each.name)
        for name, content in more.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("where", ["", "187/", "a/b/"])
def test_zips_of_nlpl(tf, tiny, tmp_path, where):
    (tf / "weights.hdf5").rename(tf / "model.hdf5")
    more = {"meta.json": "{}", "README": "x", "__MACOSX/._model.hdf5": "x"}
    path = pack(tf, tmp_path / "187.zip", where, **more)
    bilm = BiLM.load(path)
    assert same_layers(bilm, tiny) and bilm.vocab == WORDS
    assert files.read_config(path) == tiny.config


def test_zips_of_many_langs(tmp_path):
    save_many_langs(tmp_path / "model")
    expected = BiLM.load(tmp_path / "model")
    found = BiLM.load(pack(tmp_path / "model", tmp_path / "161.zip"))
    assert found.fingerprint() == expected.fingerprint()


def test_zips_of_checkpoints(tmp_path):
    gold = Path(__file__).parents[2] / "gold/bilm_tf_checkpoint"
    path = pack(gold, tmp_path / "save_dir.zip", "save_dir/")
    assert BiLM.load(path).fingerprint() == BiLM.load(gold).fingerprint()
    assert files.has_objective(path)


def test_a_zip_of_weights_with_their_checkpoint(tf, tiny, tmp_path):
    """The weights are read: no path names one of the two models in a zip."""
    gold = Path(__file__).parents[2] / "gold/bilm_tf_checkpoint"
    parts = [gold / "checkpoint", *gold.glob("model.ckpt-*")]
    more = {f"save/{part.name}": part.read_bytes() for part in parts}
    path = pack(tf, tmp_path / "212.zip", **more)
    assert same_layers(BiLM.load(path), tiny)
    assert not files.has_objective(path)


def test_zips_of_our_own(tiny, tmp_path):
    tiny.save(tmp_path / "own")
    assert same_layers(BiLM.load(pack(tmp_path / "own", tmp_path / "own.zip")), tiny)


def test_a_zip_has_what_its_folder_has(tmp_path):
    bilm = BiLM.random(tiny_config(), seed=1, vocab=WORDS)
    bilm.mix = files.Mix((0.1, 0.2, 0.3), 2.0)
    softmax = FullSoftmax(6, 4)
    bilm.save(tmp_path / "own", softmax=softmax, card={"tokens_seen": 7})
    path = pack(tmp_path / "own", tmp_path / "own.zip")
    assert files.read_mix(path) == bilm.mix
    found = files.load_objective(path, bilm.config, bilm.vocab)
    assert files.has_objective(path) and torch.equal(found.weight, softmax.weight)
    assert started_from(path)["tokens_seen"] == 7
    run("convert", path, tmp_path / "again")
    for each in (tmp_path / "own").iterdir():
        assert (tmp_path / "again" / each.name).read_bytes() == each.read_bytes()


def test_files_beside_a_zip_are_not_of_its_model(tf, tmp_path):
    """Such as those of a model that stands in the same folder."""
    other = BiLM.random(tiny_config(), vocab=WORDS)
    other.save(tmp_path / "own", softmax=FullSoftmax(6, 4), card={"tokens_seen": 7})
    path = pack(tf, tmp_path / "own/187.zip")
    bilm = BiLM.load(path)
    assert not files.has_objective(path)
    assert files.load_objective(path, bilm.config, bilm.vocab) is None
    assert read_card(path) is None and "tokens_seen" not in started_from(path)
    assert json.loads(run("info", path, "--json"))["card"] is None
    run("convert", path, tmp_path / "again")
    assert not (tmp_path / "again/softmax.safetensors").exists()


def test_warnings_name_the_zip(tf, tmp_path):
    (tf / "vocab.txt").write_bytes(b"caf\xe9\n")
    with pytest.warns(UserWarning, match=r"ELW61.*187\.zip/vocab\.txt"):
        BiLM.load(pack(tf, tmp_path / "187.zip"))


def test_a_path_in_a_zip_is_a_name(tf, tiny, tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    outside = {"../../vocab.txt": "x", "/tmp/spacy_elmo_outside.txt": "x"}
    (tf / "vocab.txt").unlink()
    BiLM.load(pack(tf, tmp_path / "x.zip", **outside))
    assert not (tmp_path / "vocab.txt").exists() and not list(work.iterdir())


def bomb(tf, path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("options.json", bytes(50 << 20))


def two_models(tf, path):
    with zipfile.ZipFile(path, "w") as archive:
        for folder in ("a", "b"):
            archive.write(tf / "options.json", f"{folder}/options.json")


def lies_about_its_size(tf, path):
    pack(tf, path)
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02")
    data[at + 24 : at + 28] = (5).to_bytes(4, "little")
    path.write_bytes(data)


def many_files(tf, path):
    with zipfile.ZipFile(path, "w") as archive:
        for n in range(1001):
            archive.writestr(f"{n}.json", "")


def packed_by_lzma(tf, path):
    """Python unpacks a whole piece at once, whatever size the entry says."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("options.json", b"12345")


BAD_ZIPS = {
    "another compression": packed_by_lzma,
    "no zip": lambda tf, path: path.write_bytes(b"PK\x03\x04" * 99),
    "empty": lambda tf, path: path.write_bytes(b""),
    "a bomb": bomb,
    "two models": two_models,
    "a lie": lies_about_its_size,
    "many files": many_files,
}


@pytest.mark.parametrize("case", BAD_ZIPS)
def test_bad_zips(tf, tmp_path, case):
    BAD_ZIPS[case](tf, tmp_path / "x.zip")
    with pytest.raises(ValueError, match="EL169"):
        BiLM.load(tmp_path / "x.zip")


def test_a_zip_of_something_else(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x/notes.txt").write_text("")
    with pytest.raises(FileNotFoundError, match=r"EL001.*'/.*x\.zip'"):
        BiLM.load(pack(tmp_path / "x", tmp_path / "x.zip"))


def test_what_is_wrong_in_a_zip_is_said_of_the_zip(tf, tmp_path):
    (tf / "options.json").write_text("{}")
    with pytest.raises(ValueError, match=r"EL003.*x\.zip/options\.json"):
        BiLM.load(pack(tf, tmp_path / "x.zip"))
