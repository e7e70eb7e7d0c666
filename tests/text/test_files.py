"""Which kind of text a file holds: every way that reads text takes and refuses the same
files, with the same tokens and sentences."""

import gzip
import json
import os
import warnings
import zlib
from pathlib import Path

import pytest
import spacy
from spacy.tokens import DocBin
from spacy.training.converters import conllu_to_docs

from spacy_elmo import embed
from spacy_elmo.explore.labelled import read_contexts
from spacy_elmo.text import (
    Reader,
    Reading,
    Request,
    describe,
    open_source,
    prepare,
    read_sentences,
)
from spacy_elmo.text.shards import open_corpus

from ..embed.corpora import embed_files

CONLLU = """\
# sent_id = s1
# text = Vámonos al  mar, I can't.
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tVamos\t_\t_\t_\t_\t_\t_\t_\t_
2\tnos\t_\t_\t_\t_\t_\t_\t_\t_
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\t_\t_\t_\t_\t_\t_\t_\t_
4\tel\t_\t_\t_\t_\t_\t_\t_\t_
5\tmar\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
6\t,\t_\t_\t_\t_\t_\t_\t_\t_
6.1\tempty\t_\t_\t_\t_\t_\t_\t_\t_
7\tI\t_\t_\t_\t_\t_\t_\t_\t_
8-9\tcan't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
8\tca\t_\t_\t_\t_\t_\t_\t_\t_
9\tn't\t_\t_\t_\t_\t_\t_\t_\t_
10\t.\t_\t_\t_\t_\t_\t_\t_\t_
"""
WORDS = ["Vamos", "nos", "a", "el", "mar", ",", "I", "ca", "n't", "."]


def by_prepare(paths, folder):
    prepare(paths, folder / "prepared", Request(vocab_size=99), progress=False)
    corpus = open_corpus(folder / "prepared")
    ids = corpus.forward.read(0, len(corpus.forward))
    read = " ".join(corpus.words[i] for i in ids).replace("<S>", "")
    return [part.split() for part in read.split("</S>") if part.strip()]


def by_embed(paths, folder):
    output = embed_files(folder, [str(path) for path in paths])
    return [sentence.tokens for sentence in embed.open(output).sentences()]


def by_sentences(paths, folder):
    return list(read_sentences(paths, lang="en"))


def by_contexts(paths, folder):
    contexts, _ = read_contexts(paths, r"\S+")
    return [list(c.sentence) for c in contexts if c.position == 0]


WAYS = (by_prepare, by_embed, by_sentences, by_contexts)


def write_docs(path):
    nlp = spacy.blank("en")
    doc = nlp("They can't. No boundary here")
    DocBin(docs=[doc]).to_disk(path)


def files_of_all_kinds(folder):
    """Each file, and what is read of it."""
    (folder / "a.txt").write_text("\ufeffIt can't. So.\r\n\nOld\rMac", encoding="utf-8")
    records = [
        {"text": "A title\nOne. Two."},
        {"tokens": [["As", "they're"], ["are"]]},
        {"text": "no", "tokens": [{"text": "Prodigy", "id": 0}, {"text": "'s"}]},
    ]
    (folder / "b.jsonl").write_text("\n".join(map(json.dumps, records)))
    (folder / "c.conllu").write_text(CONLLU, encoding="utf-8")
    write_docs(folder / "d.spacy")
    return {
        "a.txt": [["It", "ca", "n't", "."], ["So", "."], ["Old"], ["Mac"]],
        "b.jsonl": [
            ["A", "title"], ["One", "."], ["Two", "."],
            ["As", "they're"], ["are"], ["Prodigy", "'s"],
        ],
        "c.conllu": [WORDS],
        "d.spacy": [["They", "ca", "n't", ".", "No", "boundary", "here"]],
    }  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("read", WAYS)
def test_every_way_reads_the_same(tmp_path, read, packed):
    text = tmp_path / "text"
    text.mkdir()
    expected = files_of_all_kinds(text)
    for path in list(text.iterdir()) if packed else []:
        (text / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    (text / ".hidden").write_bytes(b"\0")
    files = [text / f"{name}.gz" if packed else text / name for name in expected]
    found = [s for sentences in expected.values() for s in sentences]
    assert read(files, tmp_path / "files") == found
    assert read([text], tmp_path / "folder") == found


@pytest.mark.parametrize("read", WAYS)
@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.json", b'{"text": "x"}', "EL230.*JSON document.*jsonl"),
        ("a.JSON.gz", gzip.compress(b"[]", mtime=0), "EL230.*JSON document"),
        ("a.xml", b"<a>x</a>", "EL230.*mark-up"),
        ("a.html", b"<p>x</p>", "EL230.*mark-up"),
        ("a.csv", b"a,b\n", "EL230.*table"),
        ("a.ipynb", b"{}", "EL230.*notebook"),
        ("a.conllup", b"# global.columns = ID FORM\n1\ta\n", "EL230.*CoNLL-U Plus"),
        ("a.conllu", b"# global.columns = ID FORM\n1\ta\n", "EL231.*CoNLL-U Plus"),
        ("a.iob2", b"a\tO\n", "EL230.*spacy convert"),
        ("a.conll", b"@user\tO\nsays\tO\n\n", "EL231.*2 columns.*@user.*spacy conv"),
        ("a.conll", b"-DOCSTART- -X- O O\n\nEU NNP I-NP B-ORG\n", "EL231.*4 columns"),
        ("a.txt", b"%PDF-1.7\n", "EL230.*PDF"),
        ("a.txt", gzip.compress(b"text", mtime=0), r"EL230.*gzip.*name it \.gz"),
        ("a.txt", b"\x7fELF\0\0\0\1\n", "EL230.*not a text file"),
        ("a.txt", "text".encode("utf-16"), "EL031.*UTF-16.*iconv"),
        ("a.txt", "text".encode("utf-32"), "EL031.*UTF-32.*iconv"),
        ("a.txt", zlib.compress(b"text"), r"EL230.*zlib, as Docs are.*name it \.spacy"),
        ("a.srt", b"1\n00:00:01,000 --> 00:00:02,000\nHi.\n", "EL230.*subtitles"),
        ("a.cfg", b"[nlp]\nlang = en\n", "EL230.*settings"),
        ("a.yaml", b"a: 1\n", "EL230.*settings"),
        ("a.tex", b"\\begin{document}\n", "EL230.*mark-up"),
        ("a.zip", b"PK\x03\x04", "EL230.*archive.*unpack"),
    ],
)
def test_what_is_not_text_is_refused(tmp_path, read, name, data, said):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=said):
        read([tmp_path / name], tmp_path / "out")
    assert not (tmp_path / "out" / "prepared" / "manifest.json").exists()


def test_a_table_has_labels_where_they_are_asked_for(tmp_path):
    (tmp_path / "a.tsv").write_text("river\tThe bank.\n" * 5)
    with pytest.raises(ValueError, match=r"EL230.*table"):
        list(read_sentences([tmp_path / "a.tsv"], lang="en"))
    with warnings.catch_warnings(action="error"):
        contexts, labels = read_contexts([tmp_path / "a.tsv"], "bank")
    assert labels == ["river"] * 5 and contexts[0].sentence == ["The", "bank", "."]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<html>\n<p>A page.</p>\n", "mark-up.*<html>"),
        ('<doc id="1">\nText.\n</doc>\n' * 9, 'mark-up.*<doc id="1">'),
        ("word\tO\nother\tB-LOC\nthird\tO\n", r"columns.*word\\tO"),
        ("1\tword\t_\n2\tother\t_\n3\tx\t_\n", r"CoNLL-U \(name it .conllu\)"),
        ("# text = a\n1\ta" + "\t_" * 8 + "\n\n", r"CoNLL-U \(name it .conllu\)"),
        ("1\n00:00:01,000 --> 00:00:02,000\nHi.\n", "subtitles"),
        ("WEBVTT\n\n00:01.000 --> 00:04.000\nHi.\n", "subtitles"),
        ("EU NNP B-ORG\nrejects VBZ O\nit PRP O\n", "tokens and their labels.*EU NNP"),
        ("id,name,text\n" + "1,a,b c\n" * 5, "columns.*id,name"),
        ('{"text": "a"}\n{"text": "b"}\n', "JSON.*jsonl"),
        ('{\n "text": "a"\n}\n', "JSON"),
        ('[{"text": "a"},\n {"text": "b"}]', "JSON"),
    ],
)
def test_text_that_looks_like_something_else_is_warned_of(tmp_path, text, said):
    path = tmp_path / "a.txt"
    path.write_text(text)
    with pytest.warns(UserWarning, match=f"ELW63.*looks like {said}"):
        list(read_sentences([path], lang="en"))
    with warnings.catch_warnings(action="error"):
        describe(path, "text")  # which somebody says that it is


@pytest.mark.parametrize(
    "text",
    [
        "I <3 you.\nx < y > z\n" * 5,
        "One, two, three.\nFour, five.\nSix.\nSeven, eight, nine, ten.\nEleven.\n",
        "[Music]\nThey said {sic} so.\n(Laughs.)\n",
        "A\ttab in a line.\nAnd none.\nNor here.\nNor there.\n",
        "[1] See below.\n[2] And above.\n",
        "배가\n고프다\n.\n",
        "\n",
        "# A heading\n\n- one\n- two\n\n| a | table |\n",
        "O O O\nBravo\nEncore\n",
    ],
)
def test_text_is_not_warned_of(tmp_path, text):
    path = tmp_path / "a.txt"
    path.write_text(text, encoding="utf-8")
    with warnings.catch_warnings(action="error"):
        list(read_sentences([path], lang="en"))


# -- JSON lines of annotation tools -------------------------------------------------

TEXT = "She can't. He\nran."
SPANS = [{"start": 0, "end": 3, "label": "PER"}]


def prodigy(doc):
    """As Prodigy gives the tokens of a task."""
    tokens = [
        {
            "text": token.text,
            "start": token.idx,
            "end": token.idx + len(token),
            "id": token.i,
            "ws": bool(token.whitespace_),
        }
        for token in doc
    ]
    return {"text": doc.text, "tokens": tokens, "spans": SPANS, "answer": "accept"}


TOOLS = {
    "prodigy": prodigy,
    "prodigy, without tokens": lambda doc: {"text": doc.text, "spans": SPANS},
    "doccano": lambda doc: {"id": 1, "text": doc.text, "label": [[0, 3, "PER"]]},
    "doccano, relations": lambda doc: {"text": doc.text, "entities": SPANS},
    "entities": lambda doc: {"text": doc.text, "entities": [[0, 3, "PER"]]},
    "label": lambda doc: {"text": doc.text, "label": "POS", "meta": {"a": 1}},
    "Doc.to_json": lambda doc: doc.to_json(),
    "no tokens": lambda doc: {"text": doc.text, "tokens": []},
}


@pytest.mark.parametrize("tool", TOOLS)
def test_json_lines_of_annotation_tools(tmp_path, tool):
    """Words of the text, where the text has them."""
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    doc = nlp(TEXT)
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(TOOLS[tool](doc)) + "\n")
    expected = [t.text for t in doc if not t.is_space]
    for way in WAYS:
        found = way([path], tmp_path / way.__name__)
        assert [token for sentence in found for token in sentence] == expected
        if tool == "Doc.to_json":
            assert found == [expected[:4], expected[4:]]
    (part,) = Reader(Reading()).documents(open_source(describe(path)), 0, 1 << 30)
    for tokens, starts, ends in part.sentences:
        assert [TEXT[a:b] for a, b in zip(starts, ends)] == tokens


@pytest.mark.parametrize(
    ("name", "row", "said"),
    [
        ("a.jsonl", {"data": TEXT, "label": []}, "'data', 'label'.*--text-field"),
        ("a.jsonl", {"words": ["a"]}, "'words'.*--tokens-field"),
        ("a.jsonl", {"data": {"text": TEXT}}, "'data'.*Write such a file"),
        ("a.jsonl", [TEXT, {"entities": []}], r"not a JSON object.*Write such a file"),
        ("a.json", [{"data": {"text": TEXT}}], r"EL230.*JSON document.*\.jsonl"),
    ],
)
def test_exports_with_other_fields_are_refused(tmp_path, name, row, said):
    (tmp_path / name).write_text(json.dumps(row))
    with pytest.raises(ValueError, match=f"(?s){said}"):
        by_sentences([tmp_path / name], tmp_path)


@pytest.mark.parametrize(
    "token",
    [{"text": "She", "start": 0, "end": 99}, {"text": "She", "start": "0", "end": 3},
     {"text": "She"}],
)  # fmt: skip
def test_places_that_are_none_are_not_taken(tmp_path, token):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": TEXT, "tokens": [token, token]}))
    (part,) = Reader(Reading()).documents(open_source(describe(path)), 0, 1 << 30)
    assert part.sentences == [(["She", "She"], [0, 4], [3, 7])]


def test_a_folder_without_files(tmp_path):
    with pytest.raises(ValueError, match=r"EL232.*no text files"):
        list(read_sentences([tmp_path], lang="en"))


def test_folders_that_links_name_are_read(tmp_path):
    """Each file once: a link to a folder above is a circle."""
    corpus, other = tmp_path / "corpus", tmp_path / "other"
    for folder, name in ((corpus, "z.txt"), (corpus / "m", "a.txt"), (other, "b.txt")):
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(f"{name[0]}\n")
    for place, target in (("corpus/l", other), ("other/up", corpus), ("corpus/x", ".")):
        try:
            (tmp_path / place).symlink_to(target, target_is_directory=True)
        except OSError:
            pytest.skip("this system has no links")
    assert list(read_sentences([corpus], lang="xx")) == [["b"], ["a"], ["z"]]


def test_a_folder_that_can_not_be_read_is_not_left_out(tmp_path, monkeypatch):
    closed, scandir = tmp_path / "closed", os.scandir
    closed.mkdir()
    (tmp_path / "a.txt").write_text("One.\n")

    def refuse(path="."):
        if Path(os.fspath(path)) == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    monkeypatch.setattr(Path, "iterdir", lambda self: map(Path, refuse(self)))
    with pytest.raises(OSError, match=r"EL030.*closed.*Permission denied"):
        list(read_sentences([tmp_path], lang="xx"))


def test_a_path_that_can_not_be_looked_for(tmp_path):
    """Also one that a link in a folder names."""
    (tmp_path / "a.txt").write_text("One.\n")
    endless = tmp_path / ("x" * 300)
    try:
        (tmp_path / "link").symlink_to(endless)
    except OSError:
        pytest.skip("this system has no links")
    for path in (endless, tmp_path):
        with pytest.raises(OSError, match=r"EL030.*too long"):
            list(read_sentences([path], lang="xx"))


def test_the_output_may_be_in_the_folder_that_is_read(tmp_path):
    (tmp_path / "a.txt").write_text("One.\n")
    manifest = prepare([tmp_path], tmp_path / "out", Request(), progress=False)
    assert manifest == prepare([tmp_path], tmp_path / "out", Request(), progress=False)
    assert manifest["counts"]["sentences"] == 1


def test_conllu_that_was_prepared_as_lines_is_prepared_again(tmp_path):
    """Version 0.2 did so, and its manifests say no kinds; other text is kept."""
    from spacy_elmo.files import json_with_checksum, read_json

    for name, is_kept in (("a.txt", True), ("a.jsonl", True), ("a.conllu", False)):
        data = {"a.txt": "One.\n", "a.jsonl": '{"text": "One."}\n', "a.conllu": CONLLU}
        (tmp_path / name).write_text(data[name], encoding="utf-8")
        out = tmp_path / f"out-{name}"
        prepare([tmp_path / name], out, Request(), progress=False)
        path = out / "manifest.json"
        manifest = read_json(path.read_text(), path)
        assert manifest.pop("kinds")
        path.write_text(json_with_checksum(manifest))
        if is_kept:
            assert (
                prepare([tmp_path / name], out, Request(), progress=False) == manifest
            )
        else:
            with pytest.raises(ValueError, match="EL042"):
                prepare([tmp_path / name], out, Request(), progress=False)


# -- CoNLL-U ------------------------------------------------------------------------


def places(path):
    source = open_source(describe(path))
    parts = list(Reader(Reading()).documents(source, 0, 1 << 30))
    source.close()
    return [(s.tokens, list(zip(s.starts, s.ends))) for p in parts for s in p.sentences]


def test_words_are_where_the_text_has_them(tmp_path):
    (tmp_path / "a.conllu").write_text(CONLLU, encoding="utf-8")
    text = "Vámonos al  mar, I can't."
    ((tokens, found),) = places(tmp_path / "a.conllu")
    assert tokens == WORDS
    # Words that are spelled otherwise than the text are where all of them are.
    spelled = ["Vámonos", "Vámonos", "al", "al", *WORDS[4:]]
    assert [text[a:b] for a, b in found] == spelled


@pytest.mark.parametrize("comment", ["", "# text = Something else.\n"])
def test_places_without_the_text_are_those_of_the_converted_file(tmp_path, comment):
    rows = CONLLU.split("\n")[2:]
    text = comment + "\n".join(rows)
    (tmp_path / "a.conllu").write_text(text, encoding="utf-8")
    (doc,) = conllu_to_docs(text, n_sents=1, no_print=True)
    ((tokens, found),) = places(tmp_path / "a.conllu")
    assert tokens == [token.text for token in doc] == WORDS
    assert found == [(token.idx, token.idx + len(token)) for token in doc]


def test_places_in_a_treebank_are_those_of_its_text_and_of_docs():
    path = Path(__file__).parents[2] / "assets/demo/treebank/en_ewt-ud-train.conllu"
    docs = list(conllu_to_docs(path.read_text("utf-8"), n_sents=1, no_print=True))
    found = places(path)
    assert len(found) == len(docs) > 5
    for doc, (tokens, where) in zip(docs, found):
        assert tokens == [token.text for token in doc]
        assert where == [(token.idx, token.idx + len(token)) for token in doc]
