import bz2
import gzip
import importlib.util
import json
import lzma
import random
import zlib
from contextlib import closing
from pathlib import Path

import pytest
import spacy
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_elmo.text import MAX_TOKEN, read_lines, read_sentences
from spacy_elmo.text.reading import CHARACTERS_AT_ONCE
from spacy_elmo.text.tokens import short_words
from spacy_elmo.text.unpack import ByteStream, zstd

PACKERS = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": zstd.compress,
}


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("word", ["(", "=", "'s", ":)", "-", "x"])
def test_no_long_word_reaches_the_tokenizer(tmp_path, monkeypatch, word):
    """It takes 16 seconds and more for 10,000 characters, and four times that for twice
    as many."""
    blank, lengths = spacy.blank, []

    def measured(lang):
        nlp = blank(lang)
        tokenizer = nlp.tokenizer

        def tokenize(text):
            lengths.extend(map(len, text.split()))
            return tokenizer(text)

        nlp.tokenizer = tokenize
        return nlp

    monkeypatch.setattr(spacy, "blank", measured)
    path = write(tmp_path / "a.txt", f"Before {word * 3000} after\n")
    (first, *_, last) = read_sentences([path], lang="en")
    assert first[0] == "Before" and last[-1] == "after"
    assert max(lengths) <= MAX_TOKEN and sum(lengths) == 3000 * len(word) + 11


def test_long_words_are_cut_where_a_sentence_ends():
    sentence = "今天天气很好，" * 20 + "我们去公园吧。"
    text = sentence * 30
    pieces = short_words(text)
    assert "".join(piece for _, piece in pieces) == text
    assert all(text[start:].startswith(piece) for start, piece in pieces)
    assert all(piece.endswith("。") for _, piece in pieces)
    assert all(len(piece) <= MAX_TOKEN for _, piece in pieces)
    for long in ("x" * 5000, "a," * 2000, "a" * 999 + "," + "b" * 3000):
        pieces = [piece for _, piece in short_words(long)]
        assert "".join(pieces) == long and max(map(len, pieces)) <= MAX_TOKEN


def test_sentences_of_tokens(tmp_path):
    path = write(
        tmp_path / "a.txt", "\n  A cat sat. It didn't sleep!  \n\n\t\n둘째 줄\n"
    )
    assert list(read_sentences([path], lang="en")) == [
        ["A", "cat", "sat", "."],
        ["It", "did", "n't", "sleep", "!"],
        ["둘째", "줄"],
    ]
    lines = list(read_sentences([path, path], lang="xx", sentences=False))
    assert len(lines) == 4 and lines[0][:3] == ["A", "cat", "sat"]


def test_text_that_is_set_apart_already(tmp_path):
    path = write(tmp_path / "a.txt", "It did n't . But-then (no)\n")
    plain = {"lang": "en", "tokenizer": "whitespace"}
    assert list(read_sentences([path], **plain, sentences=False)) == [
        ["It", "did", "n't", ".", "But-then", "(no)"]
    ]
    assert list(read_sentences([path], **plain)) == [
        ["It", "did", "n't", "."],
        ["But-then", "(no)"],
    ]


@pytest.mark.parametrize("ending", PACKERS)
def test_packed_files(tmp_path, ending):
    pack, path = PACKERS[ending], tmp_path / f"a.txt{ending}"
    path.write_bytes(pack("가나 다\n\n라\n".encode()))
    assert list(read_lines(path)) == ["가나 다", "라"]
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(OSError, match="EL030"):
        list(read_lines(path))
    path.write_bytes(pack(b"word " * 9999)[:-12] + b"damaged file")
    with pytest.raises(OSError, match="EL030"):
        list(read_lines(path))


@pytest.mark.parametrize("ending", PACKERS)
def test_packed_files_of_several_streams(tmp_path, ending):
    """None of them is taken for the end of the file where it is damaged."""
    pack, path = PACKERS[ending], tmp_path / f"a.txt{ending}"
    lines = [f"line {i}" for i in range(30)]
    streams = [pack(f"{line}\n".encode()) for line in lines]
    path.write_bytes(b"".join(streams))
    assert list(read_lines(path)) == lines
    second = len(streams[0])
    for damaged in (second, second + len(streams[1]) // 2):
        packed = bytearray(path.read_bytes())
        packed[damaged] ^= 255
        (tmp_path / f"b.txt{ending}").write_bytes(packed)
        with pytest.raises((OSError, ValueError), match=r"EL03[01]"):
            list(read_lines(tmp_path / f"b.txt{ending}"))


@pytest.mark.parametrize("ending", PACKERS)
def test_a_damaged_file_stays_damaged(tmp_path, ending):
    """It does not seem to end where the damage was found."""
    pack, path = PACKERS[ending], tmp_path / f"a.txt{ending}"
    path.write_bytes(pack(random.Random(0).randbytes(400_000))[:-100])
    with closing(ByteStream(str(path), ending)) as stream:
        for _ in range(3):
            with pytest.raises(OSError, match="EL030"):
                stream.read(0, 1 << 30)


def test_zeros_between_streams_of_xz(tmp_path):
    """Padding, however long, but no stream in itself, as after a loss of power."""
    path, one = tmp_path / "a.txt.xz", lzma.compress(b"one\n")
    path.write_bytes(one + bytes(600_000) + one + bytes(8))
    assert list(read_lines(path)) == ["one", "one"]
    for packed in (bytes(4096), bytes(4096) + one, b""):
        path.write_bytes(packed)
        with pytest.raises(OSError, match="EL030"):
            list(read_lines(path))


@pytest.mark.parametrize("ending", ["", ".zst"])
def test_json_lines(tmp_path, ending):
    rows = [{"text": "한 줄\n둘째 줄", "meta": 1}, {"text": "half \ud800 a pair"}]
    text = "\n".join(json.dumps(row) for row in rows) + "\n\n"
    path = tmp_path / f"a.jsonl{ending}"
    data = text.encode()
    path.write_bytes(zstd.compress(data) if ending else data)
    assert list(read_lines(path)) == ["한 줄", "둘째 줄", "half ? a pair"]


@pytest.mark.parametrize(
    "line", ["not json", '{"body": "x"}', '{"text": 3}', '["text"]', "[" * 9999]
)
def test_json_lines_without_text(tmp_path, line):
    path = write(tmp_path / "a.jsonl", '{"text": "fine"}\n' + line)
    with pytest.raises(ValueError, match=r"EL040.*line 2"):
        list(read_lines(path))


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("tokenizer", ["spacy", "whitespace"])
def test_docs_keep_their_tokens_and_sentences(tmp_path, tokenizer, ending):
    vocab, sentences = Vocab(), [["He", "can't", "New York."], ["배", "를", "타다"]]
    starts = [True, False, False, True, False, False]
    whole = Doc(vocab, words=["No", "boundaries.", "\n", "Here."])
    split = Doc(vocab, words=[*sentences[0], *sentences[1]], sent_starts=starts)
    path = tmp_path / f"corpus.spacy{ending}"
    data = DocBin(docs=[split, Doc(vocab), whole]).to_bytes()
    path.write_bytes(gzip.compress(data) if ending else data)
    found = list(read_sentences([path], lang="en", tokenizer=tokenizer))
    assert found == [*sentences, ["No", "boundaries.", "Here."]]
    if not ending:
        path.write_bytes(path.read_bytes()[:-9])
        with pytest.raises(ValueError, match=r"EL220.*corpus\.spacy"):
            list(read_lines(path))


def test_a_line_of_fifty_megabytes(tmp_path):
    path = write(tmp_path / "a.txt", "lange Zeile " * (50_000_000 // 12) + "\nkurz\n")
    with pytest.warns(UserWarning, match="ELW05.*line 1") as warned:
        lines = list(read_lines(path))
    assert len(warned) == 1 and lines[-1] == "kurz" and len(lines) > 350
    assert sum(len(line.split()) for line in lines) == 2 * (50_000_000 // 12) + 1
    assert max(map(len, lines)) <= CHARACTERS_AT_ONCE


def test_a_line_of_a_hundred_thousand_characters_is_whole(tmp_path):
    path = write(tmp_path / "a.txt", "긴 줄 " * 25_000 + "\n")
    (sentence,) = read_sentences([path], lang="xx")
    assert sentence == ["긴", "줄"] * 25_000


def test_long_tokens_lose_their_end(tmp_path):
    path = write(tmp_path / "a.txt", "a " + "x" * 10_000)
    found = next(read_sentences([path], lang="en"))
    assert found == ["a", "x" * MAX_TOKEN]


@pytest.mark.parametrize("data", [b"", b"text", zlib.compress(b"text")])
def test_no_file_stays_open_where_docs_are_damaged(tmp_path, data):
    """While somebody holds the error."""
    path = tmp_path / "a.spacy"
    path.write_bytes(data)
    with pytest.raises(ValueError, match="EL220") as caught:
        list(read_lines(path))
    links = [link for link in Path("/proc/self/fd").iterdir() if link.exists()]
    assert caught and path not in [link.resolve() for link in links]


def test_bad_files(tmp_path):
    with pytest.raises(OSError, match="EL030"):
        list(read_lines(tmp_path / "missing.txt"))
    path = tmp_path / "latin.txt"
    path.write_bytes("one\ntwo\ncafé\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"EL031.*line 3.*iconv"):
        list(read_lines(path))
    with pytest.raises(ValueError, match="EL032"):
        list(read_sentences([path], lang="qq"))


def test_korean_tokenizer_says_what_is_missing(tmp_path):
    path = write(tmp_path / "a.txt", "고양이가 잔다.")
    if importlib.util.find_spec("natto"):
        assert list(read_sentences([path], lang="ko"))
    else:
        with pytest.raises(ValueError, match=r"EL032.*mecab"):
            list(read_sentences([path], lang="ko"))
