"""Each record of an input is in one range, however the ranges are cut."""

import bz2
import gzip
import json
import lzma
import zlib
from contextlib import closing
from dataclasses import replace

import pytest
import spacy
from hypothesis import example, given, settings
from hypothesis import strategies as st
from spacy.tokens import DocBin

from spacy_elmo import embed
from spacy_elmo.embed.plan import read_plan
from spacy_elmo.text import Reader, Reading, describe, open_source
from spacy_elmo.text.records import MAX_RECORD
from spacy_elmo.text.unpack import zstd

from .corpora import save_model, write_lines

PACK = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstd.compress,
}
CONLLU = "1\tHi\t_\t_\t_\t_\t_\t_\t_\t_\n"


def conllu_of(path, text):
    path.write_text(text, encoding="utf-8")
    source = open_source(describe(path), 100)
    parts = list(Reader(Reading()).documents(source, 0, 10_000))
    source.close()
    return [[s.tokens for s in part.sentences] for part in parts]


def test_conllu_with_a_mark_of_byte_order(tmp_path):
    found = conllu_of(tmp_path / "a.conllu", f"\ufeff# sent_id = 1\n{CONLLU}\n")
    assert found == [[["Hi"]]]
    assert conllu_of(tmp_path / "a.conllu", f"{CONLLU}\n \n{CONLLU}\n") == 2 * [
        [["Hi"]]
    ]


@pytest.mark.parametrize("blank", [" ", "\t", "  \r"])
def test_a_line_of_white_space_does_not_join_sentences_unsaid(tmp_path, blank):
    with pytest.raises(ValueError, match=r"EL205.*white space"):
        conllu_of(tmp_path / "a.conllu", f"{CONLLU}{blank}\n{CONLLU}\n")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("before", "wrong", "line"),
    [("", "Hi", 1), (CONLLU, "x y", 2), (f"\n\n# a = b\n{CONLLU}\n{CONLLU}", "1", 7)],
)
def test_the_line_that_is_no_conllu_is_named(tmp_path, before, wrong, line, end):
    text = f"{before}{wrong}\n{CONLLU}\n".replace("\n", end)
    path, found = tmp_path / "a.conllu", rf"EL205.*conllu', line {line}: .*'{wrong}'"
    path.write_bytes(text.encode())
    source = open_source(replace(describe(path, "text"), kind="conllu"))
    with closing(source), pytest.raises(ValueError, match=found):
        list(Reader(Reading()).documents(source, 0, 10_000))


texts = st.text(st.sampled_from("ab é고\n\n \r"), max_size=300)


def read_ranges(path, size, *, carried=False):
    """Records by range; from one source if carried, else each range from its own."""
    described = describe(path)
    found, source, at_end, part = [], None, False, 0
    while not at_end:
        if source is None or not carried:
            source = open_source(described, max(1, size // 4))
        start, end = part * size, (part + 1) * size
        found.append(list(source.read(start, end)))
        at_end = source.at_end or not (described.is_sequential or end < described.size)
        if not carried:
            source.close()
        part += 1
    return found


def joined(ranges):
    """Documents, those that span ranges joined."""
    documents = []
    for record in (record for records in ranges for record in records):
        if record.begins:
            documents.append(b"")
        documents[-1] += record.data
    return documents


@given(text=texts, size=st.integers(8, 120))
@example(text="a" * 100, size=8)
@example(text="고" * 50, size=8)
@example(text=" " * 40 + "a\nb", size=8)
@settings(max_examples=300, deadline=None)
def test_every_line_is_read_once(tmp_path_factory, text, size):
    path = tmp_path_factory.mktemp("text") / "a.txt"
    data = text.encode()
    path.write_bytes(data)
    ranges = read_ranges(path, size)
    rows = data.split(b"\n")
    # A blank line longer than a piece is not known to be blank when it begins.
    found = [line for line in joined(ranges) if line.strip()]
    assert [line.rstrip(b"\n") for line in found] == [r for r in rows if r.strip()]
    positions = [r.position for records in ranges for r in records]
    assert positions == sorted(set(positions))
    for records in ranges:
        for record in records:
            record.data.decode()  # cut at no character's middle
            start = record.position
            assert data[start : start + len(record.data)] == record.data


@pytest.mark.parametrize("suffix", PACK)
@given(text=texts, size=st.integers(8, 120))
@example(text="aaaaé고 ", size=8)
@settings(max_examples=40, deadline=None)
def test_packed_text_is_cut_as_plain_text(tmp_path_factory, suffix, text, size):
    folder = tmp_path_factory.mktemp("text")
    plain, packed = folder / "a.txt", folder / f"a.txt{suffix}"
    plain.write_bytes(text.encode())
    packed.write_bytes(PACK[suffix](text.encode()))
    expected = [record for records in read_ranges(plain, size) for record in records]
    for carried in (True, False):
        ranges = read_ranges(packed, size, carried=carried)
        assert [record for records in ranges for record in records] == expected


@given(
    st.lists(st.text(st.sampled_from("abé고 "), max_size=30), max_size=20),
    st.integers(8, 100),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_every_json_line_is_read_once(tmp_path_factory, words, size, carried):
    path = tmp_path_factory.mktemp("text") / "a.jsonl"
    data = [{"text": word} for word in words]
    path.write_text("".join(f"{json.dumps(one)}\n" for one in data))
    found = [r for records in read_ranges(path, size, carried=carried) for r in records]
    assert [json.loads(record.data) for record in found] == data


@given(
    st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=4), max_size=12),
    st.integers(1, 4),
    st.integers(8, 60),
    st.sampled_from(["\n", "\r\n"]),
)
@settings(max_examples=150, deadline=None)
def test_every_conllu_sentence_is_read_once(tmp_path_factory, rows, blank, size, end):
    path = tmp_path_factory.mktemp("text") / "a.conllu"
    blocks = ["".join(f"{i}\t{w}{end}" for i, w in enumerate(row, 1)) for row in rows]
    path.write_bytes((end * blank).join(blocks).encode())
    found = [r.data.decode() for records in read_ranges(path, size) for r in records]
    assert [block.strip() for block in found] == [block.strip() for block in blocks]


def test_docs_are_read_once(tmp_path):
    nlp = spacy.blank("xx")
    docs = [nlp(f"This is Doc {i}.") for i in range(20)]
    DocBin(docs=docs).to_disk(tmp_path / "a.spacy")
    for carried in (True, False):
        ranges = read_ranges(tmp_path / "a.spacy", 40, carried=carried)
        found = [record for records in ranges for record in records]
        assert [r.data.text for r in found] == [doc.text for doc in docs]
        assert [r.position for r in found] == list(range(20))
    assert len(ranges) > 3


def test_damaged_inputs_are_refused(tmp_path):
    for name, data in {
        "a.gz": gzip.compress(b"text\n" * 1000)[:-20],
        "a.xz": lzma.compress(b"text\n" * 1000)[:-20],
        "b.xz": b"no xz at all",
        "a.zst": zstd.compress(b"text\n" * 1000)[:-6],
    }.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(OSError, match="EL030"):
            read_ranges(tmp_path / name, 1 << 20)
    with pytest.raises(OSError, match="EL030"):
        describe(tmp_path / "nowhere.txt")
    (tmp_path / "a.spacy").write_bytes(b"no Docs")
    with pytest.raises(ValueError, match="EL220"):
        read_ranges(tmp_path / "a.spacy", 1 << 20)
    with pytest.raises(ValueError, match="EL207"):
        describe(tmp_path / "a.xz", "pdf")


def test_memory_is_bounded_before_it_is_taken(tmp_path, monkeypatch):
    """An .xz file that asks for 4 GB, and Docs that unpack to more than is allowed."""
    data = bytearray(lzma.compress(b"text\n"))
    header = slice(12, 12 + 4 * (data[12] + 1))  # of the first block
    assert data[header][2:4] == b"\x21\x01"  # LZMA2, and one byte: the size it asks for
    data[16] = 40
    data[header.stop - 4 : header.stop] = zlib.crc32(
        data[header.start : header.stop - 4]
    ).to_bytes(4, "little")
    (tmp_path / "a.txt.xz").write_bytes(data)
    with pytest.raises(OSError, match=r"EL030.*[Mm]emory"):
        read_ranges(tmp_path / "a.txt.xz", 100)
    nlp = spacy.blank("xx")
    DocBin(docs=[nlp("word " * 20_000)]).to_disk(tmp_path / "a.spacy")
    monkeypatch.setattr("spacy_elmo.text.records.MAX_DOCS", 10_000)
    with pytest.raises(ValueError, match=r"EL220.*10,000"):
        read_ranges(tmp_path / "a.spacy", 1 << 20)


def test_a_record_has_a_bound(tmp_path):
    path = tmp_path / "a.jsonl"
    with path.open("wb") as file:
        file.write(b'{"text": "a"}\n{"text": "' + b"a" * MAX_RECORD + b'"}\n')
    with pytest.raises(ValueError, match=r"EL205.*line 2: .*33,554,432"):
        read_ranges(path, 1 << 20)


def test_one_input_and_a_folder_by_name(tmp_path):
    model, text = save_model(tmp_path / "model"), write_lines(tmp_path / "a.txt")
    plan, _ = embed.make_plan(model, text, str(tmp_path / "out"))
    assert [source.path for source in plan.inputs] == [text]


def test_names_of_files_that_are_no_utf_8(tmp_path):
    model = save_model(tmp_path / "model")
    try:
        text = write_lines(tmp_path / "caf\udce9.txt")
    except OSError:
        pytest.skip("this system has no such names")
    plan, _ = embed.make_plan(model, [text], tmp_path / "out")
    assert read_plan(tmp_path / "out").inputs == plan.inputs
