"""ELMoForManyLangs: its own vectors, and every kind of bad folder."""

import json
import os
import pickle
import shutil
import zipfile

import numpy as np
import pytest
import spacy
import torch

from spacy_elmo.bilm import weights as files
from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.errors import Errors
from spacy_elmo.pipeline import component_config

from ..many_langs import save_many_langs

SENTENCES = [["cat", "日本", "Q", ""], ["zebra"]]


@pytest.fixture
def gold_model(gold):
    return gold / "ELMoForManyLangs_generated"


def test_gold(gold_model):
    bilm = BiLM.load(gold_model / "model")
    sentences = json.loads((gold_model / "sentences.json").read_text(encoding="utf-8"))
    state = None
    for name in ("expected_first_call.npz", "expected_second_call_stateful.npz"):
        layers, state = bilm.encode_stateful(sentences, state)
        expected = np.load(gold_model / name)
        for k, found in enumerate(layers):
            assert abs(found - expected[str(k)]).max() < 1e-5


# -- as it is published -----------------------------------------------------------


def name_sizes(folder, path):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "config_path": path}))


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/home/author/sizes.json", "sizes.json"),
        ("C:\\elmo\\sizes.json", "sizes.json"),
        ("..\\configs/sizes.json", "configs/sizes.json"),
        ("/users/author/sizes.json", "zht.model/sizes.json"),
    ],
)
def test_where_the_sizes_are(made, path, place):
    expected = BiLM.load(made).fingerprint()
    name_sizes(made, path)
    (made / place).parent.mkdir(exist_ok=True)
    (made / "sizes.json").rename(made / place)
    assert BiLM.load(made).fingerprint() == expected


@pytest.mark.parametrize("name", ["cnn_50_100_512_4096_sample.json", "mine.json"])
def test_without_the_sizes(made, name):
    """The zips lack the file that all of them name; it says the same for each."""
    expected = BiLM.load(made)
    name_sizes(made, f"/Users/author/models/word_elmo/{name}")
    (made / "sizes.json").unlink()
    if name == "mine.json":
        with pytest.raises(ValueError, match=r"EL165.*mine\.json' with {") as raised:
            BiLM.load(made)
        content = str(raised.value).partition("mine.json' with ")[2]
        (made / name).write_text(content.partition("}}")[0] + "}}")
    assert BiLM.load(made).config == files.read_config(made) == expected.config
    assert BiLM.load(made).fingerprint() == expected.fingerprint()


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_files_with_marks(made, encoding):
    expected = BiLM.load(made).fingerprint()
    for name in ("config.json", "sizes.json", "word.dic", "char.dic"):
        text = (made / name).read_text(encoding="utf-8")
        (made / name).write_text(text, encoding=encoding, newline="\r\n")
        assert BiLM.load(made).fingerprint() == expected


def set_dims(folder, **dims):
    sizes = json.loads((folder / "sizes.json").read_text())
    sizes["token_embedder"] |= dims
    (folder / "sizes.json").write_text(json.dumps(sizes))


def keep_columns(folder, drop, columns):
    """Leave out a table and its columns of the projection: first are those of words,
    then those of characters."""

    def change(arrays):
        weight = arrays["projection.weight"]
        arrays["projection.weight"] = weight[:, columns].clone()
        for name in [name for name in arrays if name.startswith(drop)]:
            del arrays[name]

    edit("token_embedder.pkl", change)(folder)


def test_words_alone(made):
    """Each word is a row of the table, projected."""
    arrays = torch.load(made / "token_embedder.pkl", weights_only=True)
    set_dims(made, char_dim=0)
    keep_columns(made, ("char_", "convolutions", "highways"), slice(0, 3))
    (made / "char.dic").unlink()
    bilm = BiLM.load(made)
    assert not bilm.config.has_characters and bilm.alphabet is None
    weight, bias = arrays["projection.weight"][:, :3], arrays["projection.bias"]
    words = arrays["word_emb_layer.embedding.weight"] @ weight.T + bias
    found = bilm.encode([["cat", "other"]])[0][0]
    expected = words[[4, 0]].numpy()  # <oov> for what it does not have
    assert abs(found[:, :6] - expected).max() < 1e-6
    (made / "sizes.json").unlink()
    name_sizes(made, "cnn_0_100_512_4096_sample.json")
    assert BiLM.load(made).fingerprint() == bilm.fingerprint()


def test_words_alone_of_other_shapes(made):
    """Their product could be larger than all memory: it is not computed."""
    set_dims(made, char_dim=0)
    with pytest.raises(Errors.EL007, match=r"projection\.weight"):
        BiLM.load(made)
    keep_columns(made, (), slice(0, 3))
    edit("token_embedder.pkl", lambda a: a.update({WORD: torch.zeros(9, 3)}))(made)
    with pytest.raises(Errors.EL007, match=r"word_emb_layer.*\(9, 3\)"):
        BiLM.load(made)


def test_an_array_that_both_files_have_is_the_embedders(made):
    """The encoder has no use for it."""
    before = BiLM.load(made).fingerprint()
    more = {"projection.weight": torch.zeros(2, 2)}
    edit("encoder.pkl", lambda arrays: arrays.update(more))(made)
    assert BiLM.load(made).fingerprint() == before


def test_characters_alone(made):
    """The words, which are not in the vocabulary, as if their row were 0."""
    arrays = torch.load(made / "token_embedder.pkl", weights_only=True)
    zeros = dict(arrays)
    zeros["word_emb_layer.embedding.weight"] = torch.zeros(6, 3)
    torch.save(zeros, made / "token_embedder.pkl")
    expected = BiLM.load(made).encode(SENTENCES)
    torch.save(arrays, made / "token_embedder.pkl")
    set_dims(made, word_dim=0)
    keep_columns(made, ("word_",), slice(3, None))
    (made / "word.dic").unlink()
    bilm = BiLM.load(made)
    assert bilm.vocab is None and bilm.config.n_words == 0
    for found, wanted in zip(bilm.encode(SENTENCES), expected):
        assert abs(found - wanted).max() < 1e-6


# -- a model made here ------------------------------------------------------------


@pytest.fixture
def made(tmp_path):
    """A random model, its sizes told apart by being all different."""
    save_many_langs(tmp_path / "made")
    return tmp_path / "made"


def test_saved_in_our_format_and_in_a_pipeline(made, tmp_path):
    bilm = BiLM.load(made)
    expected = bilm.encode(SENTENCES)
    bilm.save(tmp_path / "own")
    own = BiLM.load(tmp_path / "own")
    assert own.fingerprint() == bilm.fingerprint()
    assert all(np.array_equal(a, b) for a, b in zip(own.encode(SENTENCES), expected))
    nlp = spacy.blank("xx")
    nlp.add_pipe("elmo", config=component_config(made)).load_weights(made)
    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline")
    found = loaded("cat 日本 Q")._.elmo.layers
    assert abs(found - bilm.encode([["cat", "日本", "Q"]])[0]).max() < 1e-6
    with pytest.raises(ValueError, match="EL027"):
        bilm.save(tmp_path / "tf", format="bilm-tf")


def test_sizes_are_read_without_weights(made):
    expected = BiLM.load(made).config
    for name in ("encoder.pkl", "token_embedder.pkl"):
        (made / name).write_bytes(b"")
    assert files.read_config(made) == expected


def test_fingerprint_knows_the_words_and_the_alphabet(made):
    before = BiLM.load(made).fingerprint()
    for name in ("word.dic", "char.dic"):
        text = (made / name).read_text(encoding="utf-8")
        (made / name).write_text(text.replace("日", "月"), encoding="utf-8")
        assert BiLM.load(made).fingerprint() != before
        (made / name).write_text(text, encoding="utf-8")
    assert BiLM.load(made).fingerprint() == before


def test_a_word_that_is_spelled_as_a_boundary(made):
    expected = BiLM.load(made).encode(SENTENCES)
    swap(made / "word.dic", "日本", "<S>")
    swap(made / "word.dic", "<pad>", "日本")
    swap(made / "word.dic", "<S>\t5", "<S>\t3")
    swap(made / "word.dic", "日本\t3", "日本\t5")
    found = BiLM.load(made).encode(SENTENCES)
    assert all(np.array_equal(a, b) for a, b in zip(found, expected))


class Hostile:
    def __reduce__(self):
        return os.system, ("touch hacked",)


def edit(name, change):
    def damage(folder):
        arrays = torch.load(folder / name, weights_only=True)
        change(arrays)
        torch.save(arrays, folder / name)

    return damage


def nan(arrays):
    arrays["projection.bias"][0] = float("nan")


WORD = "word_emb_layer.embedding.weight"
CHAR = "char_emb_layer.embedding.weight"
HUGE = {CHAR: torch.zeros(1).expand(60_000, 60_000)}
SPARSE = {CHAR: torch.eye(4).to_sparse()}
META = {CHAR: torch.empty(60_000, 60_000, device="meta")}


def share(arrays):
    arrays |= {f"{name} again": array for name, array in arrays.items()}


def compress(path):
    torch.save({"x": torch.zeros(10**6)}, path)
    with zipfile.ZipFile(path) as old:
        entries = {name: old.read(name) for name in old.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name, data in entries.items():
            new.writestr(name, data)


def to_folder(path):
    path.unlink()
    path.mkdir()


def to_pipe(path):
    path.unlink()
    os.mkfifo(path)


BAD = {
    "code in a pickle": (
        "EL002",
        lambda f: (f / "encoder.pkl").write_bytes(pickle.dumps({"a": Hostile()})),
    ),
    "truncated": ("EL002", lambda f: os.truncate(f / "encoder.pkl", 1000)),
    "empty": ("EL002", lambda f: os.truncate(f / "encoder.pkl", 0)),
    "not by name": ("EL002", lambda f: torch.save([torch.ones(2)], f / "encoder.pkl")),
    "not numbers": ("EL009", edit("encoder.pkl", lambda a: a.update(x="text"))),
    "numbers of a byte": (
        "EL009",
        edit(
            "encoder.pkl",
            lambda a: a.update(x=torch.ones(2).to(torch.float8_e4m3fn)),
        ),
    ),
    "half a highway": (
        "EL002",
        edit(
            "token_embedder.pkl",
            lambda a: a.update({"highways._layers.0.weight": torch.ones(1, 7)}),
        ),
    ),
    "missing array": (
        "EL006",
        edit("token_embedder.pkl", lambda a: a.pop("projection.bias")),
    ),
    "wrong shape": (
        "EL007",
        edit(
            "token_embedder.pkl", lambda a: a.update({"projection.bias": torch.ones(9)})
        ),
    ),
    "wrong axes": (
        "EL007",
        edit(
            "token_embedder.pkl",
            lambda a: a.update({"projection.weight": torch.ones(9)}),
        ),
    ),
    "nan": ("EL008", edit("token_embedder.pkl", nan)),
    "no dic": ("EL166", lambda f: (f / "char.dic").unlink()),
    "no embedder": ("EL001", lambda f: (f / "token_embedder.pkl").unlink()),
    "dic not utf-8": ("EL002", lambda f: (f / "char.dic").write_bytes(b"\xff\t0\n")),
    "dic with words for numbers": (
        "EL002",
        lambda f: (f / "word.dic").write_text("a\tone\n"),
    ),
    "stretched": ("EL009", edit("token_embedder.pkl", lambda a: a.update(HUGE))),
    "sparse": ("EL009", edit("token_embedder.pkl", lambda a: a.update(SPARSE))),
    "one memory for two": ("EL002", edit("token_embedder.pkl", share)),
    "without memory": ("EL009", edit("token_embedder.pkl", lambda a: a.update(META))),
    "larger than its sizes": (
        "EL002",
        lambda f: os.truncate(f / "encoder.pkl", 10**10),
    ),
    "compressed": ("EL002", lambda f: compress(f / "encoder.pkl")),
    "a folder": ("EL002", lambda f: to_folder(f / "encoder.pkl")),
    "a pipe": ("EL002", lambda f: to_pipe(f / "encoder.pkl")),
    "dic not numbered": (
        "EL003",
        lambda f: (f / "word.dic").write_text("a\t0\nb\t5\n"),
    ),
    "dic without marks": ("EL003", lambda f: swap(f / "char.dic", "<pad>", "p")),
    "no sizes": ("EL165", lambda f: (f / "sizes.json").unlink()),
    "no dic at all": (
        "EL001",
        lambda f: [(f / name).unlink() for name in ("char.dic", "word.dic")],
    ),
    "words of no number of columns": (
        "EL003",
        lambda f: set_dims(f, char_dim=0, word_dim="3"),
    ),
    "other sizes": ("EL003", lambda f: (f / "sizes.json").write_text("{}")),
    "name of any length": (
        "EL002",
        lambda f: (f / "config.json").write_text(
            json.dumps({"config_path": "y" * 10**5})
        ),
    ),
    "no config path": ("EL003", lambda f: (f / "config.json").write_text("[]")),
}


def swap(path, old, new):
    path.write_text(
        path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8"
    )


@pytest.mark.parametrize("case", BAD)
def test_bad_folders(made, case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, damage = BAD[case]
    damage(made)
    with pytest.raises((ValueError, FileNotFoundError), match=code):
        BiLM.load(made)
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize("text", ["{}", '["a"]', "[1, 2]", None])
def test_bad_alphabet_in_our_format(made, tmp_path, text):
    BiLM.load(made).save(tmp_path / "own")
    path = tmp_path / "own" / "alphabet.json"
    if text is None:
        alphabet = json.loads(path.read_text(encoding="utf-8"))
        text = json.dumps(["x" if c == "<bow>" else c for c in alphabet])
    path.write_text(text)
    with pytest.raises(ValueError, match="EL003"):
        BiLM.load(tmp_path / "own")
    shutil.rmtree(tmp_path / "own")


@pytest.mark.parametrize("legacy", [False, True])
def test_cut_anywhere(made, tmp_path, legacy):
    """As by a download that was interrupted; the published files are legacy ones."""
    path = made / "token_embedder.pkl"
    arrays = torch.load(path, weights_only=True)
    torch.save(arrays, path, _use_new_zipfile_serialization=not legacy)
    BiLM.load(made)
    whole = path.read_bytes()
    for end in range(0, len(whole) - 1, len(whole) // 150 or 1):
        path.write_bytes(whole[:end])
        with pytest.raises(ValueError, match=r"EL002|EL006|EL009") as raised:
            BiLM.load(made)
        assert str(path) in str(raised.value)
