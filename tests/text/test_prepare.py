"""Text to shards: the same whatever the number of processes and interruptions."""

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spacy_elmo import BiLM
from spacy_elmo.files import held, json_with_checksum, read_json
from spacy_elmo.text import Request, preparation, prepare, read_sentences
from spacy_elmo.text.corpus import BOS_ID, EOS_ID, build_corpus
from spacy_elmo.text.preparation import PARTS
from spacy_elmo.text.shards import check_files, manifest_hash, open_corpus
from spacy_elmo.text.streams import character_table

from ..models import tiny_config

N_PARTS = 14  # that the text below makes
PLAIN = Request(tokenizer="whitespace", sentences=False)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(preparation, "BLOCK", 200)
    monkeypatch.setattr(preparation, "SHARD", 90)  # of several parts each


@pytest.fixture
def text(tmp_path):
    rng = np.random.default_rng(0)
    words = np.array([f"w{i}" for i in range(60)] + ["고양이", "naïve", "<S>"])
    lines = [" ".join(rng.choice(words, rng.integers(1, 12))) for _ in range(120)]
    path = tmp_path / "text.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def whole(corpus, direction):
    ids = getattr(corpus, direction)
    return [corpus.words[i] for i in ids.read(0, len(ids))]


def test_shards_hold_the_text(text, tmp_path):
    manifest = prepare([text], tmp_path / "out", PLAIN, progress=False)
    corpus = open_corpus(tmp_path / "out")
    lines = [line.split() for line in text.read_text("utf-8").splitlines()]
    clean = [[w if w != "<S>" else "<UNK>" for w in line] for line in lines]
    expected = [w for line in clean for w in ("<S>", *line, "</S>")]
    assert manifest["counts"]["shards"] > 5
    assert whole(corpus, "forward") == expected
    back = [w for line in clean for w in ("</S>", *line[::-1], "<S>")]
    assert whole(corpus, "backward") == back
    counts = Counter(w for line in clean for w in line)
    for word, count in zip(corpus.words, corpus.counts_V.tolist()):
        assert count == counts.get(word, len(lines))  # boundaries: one a line
    assert sorted(counts.values()) == sorted(corpus.counts_V[2:].tolist())
    assert list(corpus.counts_V[3:]) == sorted(corpus.counts_V[3:], reverse=True)
    found = manifest["counts"]
    assert found["lines"] == found["sentences"] == len(lines)
    assert found["tokens"] == corpus.n_tokens == sum(map(len, lines))


def test_is_the_same_as_in_memory(text, tmp_path):
    request = Request(vocab_size=30)
    prepare([text], tmp_path / "out", request, progress=False)
    mapped = open_corpus(tmp_path / "out")
    built = build_corpus(read_sentences([text], lang="en"), vocab_size=30)
    assert mapped.words == built.words and mapped.vocab == built.vocab
    assert len(mapped.vocab) == 30 and mapped.coverage == built.coverage
    for name in ("counts_V", "characters_VC", "target_V"):
        assert np.array_equal(getattr(mapped, name), getattr(built, name)), name
    for direction in ("forward", "backward"):
        assert whole(mapped, direction) == whole(built, direction)
    bilm = BiLM.random(tiny_config())
    assert np.array_equal(
        character_table(mapped, bilm), bilm.character_ids(mapped.words)
    )


def test_number_of_processes_changes_nothing(text, tmp_path, monkeypatch):
    monkeypatch.undo()  # processes started anew would not see the small blocks
    text.write_text(text.read_text("utf-8") * 300, encoding="utf-8")
    monkeypatch.setattr(preparation, "BLOCK", 50_000)
    monkeypatch.setattr(preparation, "SHARD", 20_000)
    for n in (1, 2):
        prepare([text], tmp_path / str(n), PLAIN, processes=n, progress=False)
    assert contents(tmp_path / "1") == contents(tmp_path / "2")
    assert len(contents(tmp_path / "1")) > 20


@pytest.mark.parametrize("after", [0, 1, 5, "joining"])
def test_goes_on_where_it_was_interrupted(text, tmp_path, monkeypatch, after):
    prepare([text], tmp_path / "whole", PLAIN, progress=False)
    real, made = preparation.make_part, []

    def make(lines, path, request):
        if len(made) == after:
            raise KeyboardInterrupt
        made.append(path)
        return real(lines, path, request)

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(preparation, "make_part", make)
    if after == "joining":
        monkeypatch.setattr(preparation, "reverse_sentences", interrupted)
    with pytest.raises(KeyboardInterrupt):
        prepare([text], tmp_path / "out", PLAIN, progress=False)
    assert not (tmp_path / "out" / "manifest.json").exists()
    done = len(made)
    monkeypatch.undo()
    monkeypatch.setattr(preparation, "BLOCK", 200)
    monkeypatch.setattr(preparation, "SHARD", 90)

    def make_again(lines, path, request):
        if not path.exists():
            made.append(path)
        return real(lines, path, request)

    monkeypatch.setattr(preparation, "make_part", make_again)
    prepare([text], tmp_path / "out", PLAIN, progress=False)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert len(made) == N_PARTS, "a part was made twice, or left out"
    assert done == (N_PARTS if after == "joining" else after)
    assert check_files(tmp_path / "out")["counts"]["shards"] < N_PARTS


def test_what_was_prepared_otherwise_is_not_replaced_unasked(text, tmp_path):
    out = tmp_path / "out"
    first = prepare([text], out, PLAIN, progress=False)
    before = contents(out)
    assert prepare([text], out, PLAIN, progress=False) == first
    other = Request(tokenizer="whitespace", sentences=False, max_tokens=100)
    with pytest.raises(ValueError, match="EL042"):
        prepare([text], out, other, progress=False)
    assert contents(out) == before
    prepare([text], out, other, overwrite=True, progress=False)
    assert 100 <= open_corpus(out).n_tokens < 112
    assert len(contents(out)) < len(before)  # no shard of the old text is left
    assert not (out / PARTS).exists()


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(limit=st.integers(1, 800))
@pytest.mark.slow
def test_max_tokens_is_a_prefix(text, tmp_path_factory, limit):
    out = tmp_path_factory.mktemp("out")
    request = Request(tokenizer="whitespace", sentences=False, max_tokens=limit)
    prepare([text], out / "some", request, progress=False)
    prepare([text], out / "all", PLAIN, progress=False)
    some, everything = open_corpus(out / "some"), open_corpus(out / "all")
    assert whole(some, "forward") == whole(everything, "forward")[: len(some.forward)]
    assert some.n_tokens >= min(limit, everything.n_tokens)
    first = everything.first(limit)
    for direction in ("forward", "backward"):
        assert whole(first, direction) == whole(some, direction)
    assert first.n_tokens == some.n_tokens
    ids = first.forward.read(0, len(first.forward))
    assert first.n_tokens == int(((ids != BOS_ID) & (ids != EOS_ID)).sum())


@pytest.mark.parametrize("spoil", ["missing", "longer", "changed", "manifest"])
def test_damaged_shards(text, tmp_path, spoil):
    out = tmp_path / "out"
    prepare([text], out, PLAIN, progress=False)
    shard, manifest = out / "00001.forward.npy", out / "manifest.json"
    data = shard.read_bytes()
    if spoil == "missing":
        shard.unlink()
    elif spoil == "longer":
        shard.write_bytes(data + b"\0")
    elif spoil == "changed":
        shard.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    else:
        manifest.write_text(manifest.read_text()[:100])
    with pytest.raises(ValueError, match="EL041"):
        open_corpus(out)
    with pytest.raises(ValueError, match="EL041"):
        prepare([text], out, PLAIN, progress=False)
    (out / "manifest.json").unlink()
    prepare([text], out, PLAIN, overwrite=True, progress=False)
    assert open_corpus(out).n_tokens


def test_one_process_checks_for_all(text, tmp_path):
    """The others see that the files are there, and their sizes."""
    prepare([text], tmp_path, PLAIN, progress=False)
    expected = whole(open_corpus(tmp_path), "forward")
    assert whole(open_corpus(tmp_path, check=False), "forward") == expected
    shard = tmp_path / "00001.forward.npy"
    data = shard.read_bytes()
    shard.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ValueError, match="EL041"):
        open_corpus(tmp_path)
    open_corpus(tmp_path, check=False)
    shard.write_bytes(data + b"0")
    with pytest.raises(ValueError, match="EL041"):
        open_corpus(tmp_path, check=False)


def test_hash_names_the_text(text, tmp_path):
    prepare([text], tmp_path / "a", PLAIN, progress=False)
    copy = tmp_path / "copy.txt"
    copy.write_bytes(text.read_bytes())
    prepare([copy], tmp_path / "b", PLAIN, progress=False)
    copy.write_text(text.read_text("utf-8") + "\nmore", encoding="utf-8")
    prepare([copy], tmp_path / "c", PLAIN, progress=False)
    hashes = [manifest_hash(tmp_path / name) for name in "abc"]
    assert hashes[0] == hashes[1] != hashes[2]


def test_nothing_to_read(tmp_path):
    path = tmp_path / "empty.txt"
    path.write_text(" \n\n\t\n")
    with pytest.raises(ValueError, match="EL033"):
        prepare([path], tmp_path / "out", PLAIN, progress=False)
    with pytest.raises(OSError, match="EL030"):
        prepare([tmp_path / "none"], tmp_path / "out", PLAIN, progress=False)
    with pytest.raises(ValueError, match="EL032"):
        prepare([path], tmp_path / "out", Request(tokenizer="mecab"), progress=False)


def test_a_process_that_dies(text, tmp_path, monkeypatch):
    """As when the system runs out of memory and ends one."""
    monkeypatch.setattr(preparation, "make_part", die)
    with pytest.raises(OSError, match="EL044"):
        prepare([text], tmp_path / "out", PLAIN, processes=2, progress=False)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
def test_processes_end_with_the_one_that_started_them(text, tmp_path):
    """Killed, it can tell them nothing."""
    text.write_text(text.read_text("utf-8") * 20_000, encoding="utf-8")
    command = [sys.executable, "-m", "spacy", "elmo", "prepare", str(text), "-n", "2"]
    process = subprocess.Popen(
        [*command, "--output", str(tmp_path / "out")], stderr=subprocess.DEVNULL
    )
    family = psutil.Process(process.pid)
    while not list((tmp_path / "out").glob("unfinished/*.npz")):
        time.sleep(0.05)
        assert process.poll() is None
    children = family.children(recursive=True)
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(children, timeout=20)
    assert len(children) >= 2 and not alive


def die(*args, **kwargs):
    import os

    os._exit(1)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"counts": {"shards": 10**6}}, "as many shards"),
        ({"counts": {"shards": 0}}, "as many shards"),
        ({"counts": {"shards": -1}}, "as many shards"),
        ({"counts": {"tokens": "9"}}, "not a number"),
        ({"counts": {"shards": True}}, "not a number"),
        ({"files": {"words.txt": {"bytes": "9"}}}, "not a number"),
        ({"format": 2}, "format 2 is not known"),
    ],
)
def test_manifest_that_is_wrong_in_itself(text, tmp_path, change, problem):
    """With the checksum of what it says."""
    prepare([text], tmp_path / "out", Request(), progress=False)
    path = tmp_path / "out" / "manifest.json"
    manifest = read_json(path.read_text(), path)
    for key, value in change.items():
        manifest[key] = value if key == "format" else {**manifest[key], **value}
    path.write_text(json_with_checksum(manifest))
    with pytest.raises(ValueError, match=f"EL041.*{problem}"):
        open_corpus(tmp_path / "out")


def test_training_and_dev_text_are_split_by_one_tokenizer():
    """It keeps what it has split, so that two would take twice the memory."""
    training, dev = Request(min_count=2), Request(max_tokens=100)
    assert preparation.reader_of(training) is preparation.reader_of(dev)
    assert preparation.reader_of(Request(lang="xx")) is not preparation.reader_of(dev)


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch):
    """The manifest would have the hash of another text, and the same command would go
    on with parts of both."""
    monkeypatch.setattr(preparation, "BLOCK", 1 << 20)
    path, real = tmp_path / "a.txt", preparation.make_part
    path.write_text("a line of words\n" * 200_000)  # more than is read at once

    def make(block, part, request):
        if not part.exists():
            with path.open("a") as file:
                file.write("a new line\n")
        return real(block, part, request)

    monkeypatch.setattr(preparation, "make_part", make)
    with pytest.raises(ValueError, match="EL204"):
        prepare([path], tmp_path / "out", PLAIN, progress=False)
    assert not (tmp_path / "out" / PARTS).exists()
    monkeypatch.setattr(preparation, "make_part", real)
    manifest = prepare([path], tmp_path / "out", PLAIN, progress=False)
    assert manifest["counts"]["lines"] == path.read_text().count("\n")


def test_parts_of_changed_files_are_not_those_of_the_files_before(
    tmp_path, monkeypatch
):
    """Reading ends where the second file is opened; both files are then restored."""
    monkeypatch.setattr(preparation, "BLOCK", 1 << 20)
    paths, real = [tmp_path / "a.txt", tmp_path / "b.txt"], preparation.make_part
    before = ["a line of words\n" * 400_000, "another line\n"]  # of several ranges
    for path, text in zip(paths, before):
        path.write_text(text)

    def make(block, part, request):
        for path in paths:
            path.write_text(path.read_text().replace("line", "row."))
        return real(block, part, request)

    monkeypatch.setattr(preparation, "make_part", make)
    with pytest.raises(ValueError, match="EL204"):
        prepare(paths, tmp_path / "out", PLAIN, progress=False)
    monkeypatch.setattr(preparation, "make_part", real)
    for path, text in zip(paths, before):
        path.write_text(text)
    manifest = prepare(paths, tmp_path / "out", PLAIN, progress=False)
    assert manifest["counts"]["lines"] == 400_001
    assert "row." not in open_corpus(tmp_path / "out").words


def test_a_file_that_is_only_touched_while_it_is_read_is_the_same(
    text, tmp_path, monkeypatch
):
    real = preparation.make_part

    def make(block, part, request):
        os.utime(text, (1, 1))
        return real(block, part, request)

    monkeypatch.setattr(preparation, "make_part", make)
    manifest = prepare([text], tmp_path / "out", PLAIN, progress=False)
    assert manifest["counts"]["lines"] == 120


def test_one_process_prepares_a_folder(text, tmp_path, monkeypatch):
    """Another one with other settings would remove its parts, or take them for its
    own."""
    prepare([text], tmp_path / "expected", PLAIN, progress=False)
    real = preparation.make_part

    def make(block, path, request):
        if request == PLAIN:
            with pytest.raises(ValueError, match=r"EL124.*another --output"):
                prepare([text], tmp_path / "out", Request(), progress=False)
        return real(block, path, request)

    monkeypatch.setattr(preparation, "make_part", make)
    prepare([text], tmp_path / "out", PLAIN, progress=False)
    assert contents(tmp_path / "out") == contents(tmp_path / "expected")


def test_any_number_of_processes_find_that_a_folder_is_prepared(text, tmp_path):
    """As several that begin with the same command do."""
    made = prepare([text], tmp_path / "out", PLAIN, progress=False)
    with held(tmp_path / "out"):  # another one checks it, or replaces it
        assert prepare([text], tmp_path / "out", PLAIN, progress=False) == made
        with pytest.raises(ValueError, match="EL124"):
            prepare([text], tmp_path / "out", Request(), progress=False)
        (tmp_path / "out" / "words.txt").write_text("")
        with pytest.raises(ValueError, match="EL124"):
            prepare([text], tmp_path / "out", PLAIN, progress=False)
    with pytest.raises(ValueError, match="EL041"):
        prepare([text], tmp_path / "out", PLAIN, progress=False)
