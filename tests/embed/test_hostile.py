"""Text that no one would write, and disks that fail."""

import errno
import json
import random
import subprocess
import sys
import time

import pytest

from spacy_elmo import embed
from spacy_elmo.embed import Reading, run, verify

from ..damaged_docs import DAMAGED_DOCS, damaged_docs
from .corpora import (
    SMALL,
    embed_files,
    make_plan,
    save_model,
    shards,
    write_jsonl,
    write_lines,
)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"fine\n\xff\xfe no UTF-8\n", "EL031.*line 2.*utf-8.*iconv"),
        (b"fine\n" * 2000 + b"a zero \0 byte\n", "EL031.*line 2001.*zero byte"),
        (b"fine\nalso fine\na zero \0 byte\n", "EL230.*not a text file"),
    ],
)
def test_text_that_is_none(tmp_path, data, problem):
    (tmp_path / "a.txt").write_bytes(data)
    with pytest.raises(ValueError, match=problem):
        embed_files(tmp_path, [str(tmp_path / "a.txt")])


@pytest.mark.parametrize(
    "line",
    [
        "no JSON",
        "[]",
        '{"text": 3}',
        '{"id": "no text"}',
        '{"tokens": "no list"}',
        '{"tokens": [1, 2]}',
        '{"tokens": [["a"], "b", 3]}',
        '{"tokens": [["a"], "bc"]}',
        '{"tokens": ["bc", ["a"]]}',
        "[" * 100_000,
        '{"text": ' + "9" * 5000 + "}",
        "\xff",
    ],
)
def test_json_that_is_none(tmp_path, line):
    (tmp_path / "a.jsonl").write_bytes(line.encode("latin-1") + b"\n")
    with pytest.raises(ValueError, match=r"EL0(40|31).*line 1"):
        embed_files(tmp_path, [str(tmp_path / "a.jsonl")])


def test_conllu_that_is_none(tmp_path):
    (tmp_path / "a.conllu").write_text("1\ta\n\n1 no tabs\n")
    with pytest.raises(ValueError, match=r"EL205.*line 3: not a line"):
        embed_files(tmp_path, [str(tmp_path / "a.conllu")])


@pytest.mark.parametrize("part", DAMAGED_DOCS)
def test_docs_that_were_damaged(tmp_path, part):
    (tmp_path / "a.spacy").write_bytes(damaged_docs(part))
    with pytest.raises(ValueError, match="EL220"):
        embed_files(tmp_path, [str(tmp_path / "a.spacy")])


def test_conllu_with_the_ends_of_lines_of_windows(tmp_path):
    (tmp_path / "a.conllu").write_bytes(b"1\tword\r\n2\tother\r\n\r\n")
    corpus = embed.open(embed_files(tmp_path, [str(tmp_path / "a.conllu")]))
    assert [document.tokens for document in corpus] == [["word", "other"]]


def test_any_characters(tmp_path):
    """Whatever is valid UTF-8, white space of all kinds and long words included."""
    choice = random.Random(0)
    kinds = "a(' .\t\u3000\u200b\u0300\r\x0b\x1c\u2028😀고"
    rows = ["".join(choice.choices(kinds, k=choice.randrange(200))) for _ in range(300)]
    rows += ["(" * 3000, "'s" * 2000, "고" * 3000, "\u0300" * 3000, "\ufeffmark"]
    text = "\n".join(rows)
    (tmp_path / "a.txt").write_text(text, encoding="utf-8", newline="")
    started = time.monotonic()
    output = embed_files(tmp_path, [str(tmp_path / "a.txt")])
    assert time.monotonic() - started < 60  # not with the square of a word's length
    assert verify(output).problems == []
    data = text.encode()
    for document in embed.open(output):
        found = []
        for position, starts, ends in document.offsets:
            line = data[position : position + 20_000].decode("utf-8", "ignore")
            line = line if position else line.removeprefix("\ufeff")
            found += [line[a:b][:1000] for a, b in zip(starts, ends)]
        assert found == document.tokens


def test_one_document_of_10_mb(tmp_path):
    """In bounded memory, cut between words, joined by the reader."""
    line = ("a" * 999 + " ") * 10_000
    (tmp_path / "a.txt").write_text(f"Before.\n{line}\nAfter.\n")
    save_model(tmp_path / "model")
    output = tmp_path / "vectors"
    reading = Reading(tokenizer="whitespace", split=False)
    options = {"pool": "doc", "shard_mb": 1.0, "reading": reading}
    model = str(tmp_path / "model")
    make_plan(model, [str(tmp_path / "a.txt")], output, **options)
    run(output)
    before, document, after = embed.open(output)
    assert (before.n_tokens, document.n_tokens, after.n_tokens) == (1, 10_000, 1)
    assert len(document.pieces) == 10 and document.vectors.shape == (32,)


@pytest.mark.slow
def test_a_hundred_thousand_documents_of_one_token(tmp_path):
    (tmp_path / "a.txt").write_text("word\n" * 100_000)
    reading = Reading(tokenizer="whitespace", split=False)
    options = {"dtype": "int8", "shard_mb": 0.3, "reading": reading}
    output = embed_files(tmp_path, [str(tmp_path / "a.txt")], **options)
    corpus = embed.open(output)
    assert len(corpus) == corpus.n_tokens == 100_000
    assert corpus[77_777].id == "0:388885" and corpus["0:388885"].tokens == ["word"]


def test_weights_that_overflow(tmp_path):
    from spacy_elmo import BiLM

    model = save_model(tmp_path / "model", proj_clip=None, cell_clip=None)
    bilm = BiLM.load(model)
    for parameter in bilm.parameters():
        parameter.data *= 1e4
    bilm.save(tmp_path / "large")
    text = write_lines(tmp_path / "a.txt", 3)
    output = tmp_path / "vectors"
    make_plan(str(tmp_path / "large"), [text], output, dtype="float16")
    with pytest.raises(ValueError, match=r"EL210.*float16"):
        run(output)
    assert shards(output) == {}


def test_a_disk_that_is_full(tmp_path):
    resource = pytest.importorskip("resource")
    text = write_lines(tmp_path / "a.txt", 30)
    expected = shards(embed_files(tmp_path, [text]))
    output = tmp_path / "out"
    options = {"shard_mb": SMALL}
    _, encoder = make_plan(str(tmp_path / "model"), [text], output, **options)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(OSError, match="EL013"):
            run(output, encoder=encoder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert shards(output) == {}
    run(output, encoder=encoder)
    assert shards(output) == expected


def test_memory_that_is_full(tmp_path, monkeypatch):
    """No file is to blame."""
    text, model = write_lines(tmp_path / "a.txt", 3), save_model(tmp_path / "model")
    _, encoder = make_plan(model, [text], tmp_path / "out")

    def full(*args):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr("spacy_elmo.embed.model.mmap", full)
    with pytest.raises(MemoryError, match="EL096"):
        run(tmp_path / "out", encoder=encoder)


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of a process")
@pytest.mark.parametrize("given", ["text", "-"])
def test_a_plan_that_can_not_be_written(tmp_path, given):
    """As on a disk that is full."""
    model, text = save_model(tmp_path / "model"), tmp_path / "a.txt"
    text.write_text("A line.\n" * 300)
    inputs = [str(text) if given == "text" else "-"]
    program = (
        "import resource\nfrom spacy_elmo.embed import make_plan\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (999, 999))\n"
        f"make_plan({model!r}, {inputs!r}, {str(tmp_path / 'out')!r})"
    )
    command = [sys.executable, "-c", program]
    with text.open() as stdin:
        done = subprocess.run(
            command, stdin=stdin, capture_output=True, text=True, check=False
        )
    assert "[EL013] Can't write" in done.stderr and "File too large" in done.stderr
    assert not list((tmp_path / "out").glob("[ps]*.*"))


def test_a_small_file_system(tmp_path):
    """ENOSPC itself, on a file system of a megabyte."""
    place = tmp_path / "small"
    place.mkdir()
    options = ["-t", "tmpfs", "-o", "size=120k", "tmpfs", str(place)]
    if subprocess.run(["mount", *options], check=False, capture_output=True).returncode:
        pytest.skip("this user can't mount a file system")
    try:
        text = write_lines(tmp_path / "a.txt", 90)
        save_model(tmp_path / "model")
        model = str(tmp_path / "model")
        make_plan(model, [text], tmp_path / "out", shard_mb=SMALL)
        plan = json.loads((tmp_path / "out/plan.json").read_text())
        plan["estimate"]["bytes"] = 0  # an estimate that was too low
        (place / "plan.json").write_text(json.dumps(plan))
        with pytest.raises(OSError, match=r"EL013.*No space left"):
            run(place)
        assert 0 < len(shards(place)) < 8
        subprocess.run(["mount", "-o", "remount,size=9m", str(place)], check=True)
        run(place)
        assert shards(place) == shards(embed_files(tmp_path, [text]))
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_lock_that_can_not_be_taken(tmp_path):
    """As on a disk that was mounted to be read since."""
    text = write_lines(tmp_path / "a.txt", 3)
    output = embed_files(tmp_path, [text])
    lock = output / ".unfinished/lock"
    lock.unlink()
    lock.mkdir()
    with pytest.raises(OSError, match="EL013"):
        run(output)
    lock.rmdir()
    run(output)
    assert not verify(output).problems


def test_a_folder_that_can_not_be_written(tmp_path):
    text = write_lines(tmp_path / "a.txt", 3)
    model = save_model(tmp_path / "model")
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="EL013"):
        make_plan(model, [text], tmp_path / "file" / "vectors")
    place = tmp_path / "read-only"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(place)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("this user can't mount a file system")
    try:
        with pytest.raises(OSError, match="EL013"):
            make_plan(model, [text], place / "vectors")
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_records_of_any_shape(tmp_path):
    records = [{"tokens": ["", " ", "\0", "a" * 5000]}, {"tokens": []}, {"text": "\0"}]
    output = embed_files(tmp_path, [write_jsonl(tmp_path / "a.jsonl", records)])
    assert [document.tokens for document in embed.open(output)] == [
        ["", " ", "\0", "a" * 1000],
        [],
        ["\0"],
    ]
    assert verify(output, full=True).problems == []
