"""Contexts and labels from files."""

import gzip
import os
import zlib

import pytest
import spacy
from spacy.tokens import Doc, DocBin

from spacy_elmo.explore.labelled import read_contexts

from ..damaged_docs import DAMAGED_DOCS, damaged_docs


@pytest.fixture
def docs(tmp_path):
    vocab = spacy.blank("en").vocab
    doc = Doc(
        vocab,
        ["I", "like", "\n", "it", ".", "Like", "me", "."],
        pos=["PRON", "VERB", "SPACE", "PRON", "PUNCT", "ADP", "PRON", "PUNCT"],
        tags=["PRP", "VBP", "_SP", "PRP", ".", "IN", "PRP", "."],
        sent_starts=[True, False, False, False, False, True, False, False],
    )
    path = tmp_path / "corpus.spacy"
    DocBin(docs=[doc]).to_disk(path)
    return path


@pytest.mark.parametrize(
    ("label", "expected"), [("tag", ["VBP", "IN"]), ("pos", ["VERB", "ADP"])]
)
def test_annotated_docs(docs, label, expected):
    contexts, labels = read_contexts([docs], "like", label=label)
    assert labels == expected
    assert [str(c) for c in contexts] == ["I [like] it .", "[Like] me ."]


@pytest.mark.parametrize("name", ["senses.tsv", "senses.TSV", "senses.tsv.gz"])
def test_table_of_labels_and_sentences(tmp_path, name):
    path = tmp_path / name
    text = b"river\tthe bank . The bank\nno label bank\nmoney\tno such word\n"
    path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    contexts, labels = read_contexts([path], "bank", tokenizer="whitespace")
    assert labels == ["river", "river", ""]
    assert [c.position for c in contexts] == [1, 4, 2]


def test_labels_stay_with_their_lines_beside_a_word_that_is_cut(tmp_path):
    path = tmp_path / "senses.tsv"
    lines = ["A\tthe bank lends", f"B\tsee {'x' * 1500} here", "C\tthe bank of it"]
    path.write_text("\n".join([*lines, f"D\ta bank {'x' * 1500}"]))
    contexts, labels = read_contexts([path], "bank")
    assert labels == ["A", "C", "D"] and len(contexts) == 3


def test_plain_text_has_no_labels(tmp_path, docs):
    path = tmp_path / "text.txt"
    path.write_text("The bank. A bank!\n배가 고프다\n")
    contexts, labels = read_contexts([path], "bank")
    assert labels is None and [c.sentence for c in contexts] == [
        ["The", "bank", "."], ["A", "bank", "!"],
    ]  # fmt: skip
    assert len(read_contexts([path], "bank", limit=1)[0]) == 1
    assert read_contexts([path, docs], "bank|like")[1] == ["", "", "VBP", "IN"]


@pytest.mark.parametrize(
    ("code", "text", "arguments"),
    [
        ("EL073", "bank", {"label": "sense"}),
        ("EL082", "bank", {"word": "bank("}),
        ("EL084", "river", {}),
        ("EL032", "bank", {"lang": "qq"}),
    ],
)
def test_errors(tmp_path, code, text, arguments):
    path = tmp_path / "text.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=code):
        read_contexts([path], **{"word": "bank", **arguments})


def test_files_that_hold_no_docs(tmp_path):
    for content in (b"", b"The bank.", b"x\x9cK\x04\x00\x00b\x00b"):
        (tmp_path / "a.spacy").write_bytes(content)
        with pytest.raises(ValueError, match="EL220"):
            read_contexts([tmp_path / "a.spacy"], "bank")
    with pytest.raises(OSError, match="EL030"):
        read_contexts([tmp_path / "none.spacy"], "bank")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
def test_a_fifo_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.spacy")
    with pytest.raises(OSError, match="EL030"):
        read_contexts([tmp_path / "a.spacy"], "bank")


@pytest.mark.parametrize("part", DAMAGED_DOCS)
def test_docs_that_were_damaged(tmp_path, part):
    (tmp_path / "a.spacy").write_bytes(damaged_docs(part))
    with pytest.raises(ValueError, match="EL220"):
        read_contexts([tmp_path / "a.spacy"], "bank")


def test_docs_that_take_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr("spacy_elmo.text.records.MAX_DOCS", 10_000)
    (tmp_path / "a.spacy").write_bytes(zlib.compress(b"\xc6\0\1\0\0" + bytes(1 << 16)))
    with pytest.raises(ValueError, match=r"EL220.*10,000"):
        read_contexts([tmp_path / "a.spacy"], "bank")
