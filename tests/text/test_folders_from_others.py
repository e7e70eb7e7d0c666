"""Prepared text from others, in which every file is one that the manifest lists."""

import numpy as np
import pytest

from spacy_elmo.files import json_with_checksum, read_json, sha256
from spacy_elmo.text import Request, prepare
from spacy_elmo.text.shards import open_corpus


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "text.txt").write_text("the cat sat on the mat\nthe dog ran\n" * 9)
    request = Request(tokenizer="whitespace", sentences=False)
    prepare([tmp_path / "text.txt"], tmp_path / "out", request, progress=False)
    open_corpus(tmp_path / "out")
    return tmp_path / "out"


def _foreign_character(table_VC):
    table_VC[5:, 3] = 60_000


def _negative_count(counts_V):
    counts_V[5] *= -1


def _other_word(ids):
    ids[3] = ids[3] + 1


def _no_word(ids):
    ids[3] = 1 << 20


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("characters.npy", _foreign_character),
        ("counts.npy", _negative_count),
        ("00000.forward.npy", _no_word),
        ("00000.backward.npy", _other_word),
    ],
)
def test_text_that_contradicts_itself(folder, name, change):
    values = np.load(folder / name)
    change(values)
    np.save(folder / name, values)
    _sign(folder, name)
    with pytest.raises(ValueError, match=r"EL041.*(numbers that|other words)"):
        open_corpus(folder)


def test_words_that_are_not_utf_8(folder):
    data = (folder / "words.txt").read_bytes()
    (folder / "words.txt").write_bytes(b"\xff" + data[1:])
    _sign(folder, "words.txt")
    with pytest.raises(ValueError, match=r"EL041.*words.txt.*UTF-8"):
        open_corpus(folder)


@pytest.mark.parametrize("manifest", ["[" * 100_000, "[]", "{}", '{"format": 3}'])
def test_manifest_that_is_none(folder, manifest):
    (folder / "manifest.json").write_text(manifest)
    with pytest.raises(ValueError, match=r"EL041.*manifest\.json"):
        open_corpus(folder)


def _sign(folder, name):
    """Make a changed file one that the manifest lists."""
    path = folder / "manifest.json"
    manifest = read_json(path.read_text(), path)
    manifest["files"][name]["sha256"] = sha256(folder / name)
    path.write_text(json_with_checksum(manifest))
