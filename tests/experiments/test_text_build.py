"""From tiny repositories to a corpus: filters, limits, order, starting again."""

import json
import lzma
import random
import shutil

import pytest

from experiments.text import build as build_module
from experiments.text import heldout, join, judge, mirrors, parts, seen
from experiments.text.build import build
from experiments.text.source import Repository, Source

from .test_text_mirrors import make_repository

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def sentence(seed: object, words: int = 15) -> str:
    """Words that no other seed has."""
    lot = random.Random(str(seed))
    found = ["".join(lot.choices(LETTERS, k=7)) for _ in range(words)]
    return " ".join(found).capitalize() + "."


def article(name: str, paragraphs: int = 4) -> str:
    return "\n\n".join(sentence(f"{name} {n}", 30) for n in range(paragraphs))


SHORT = "Nobody ever eats blue soup."
HELD_OUT = [sentence("held out", 25), sentence("held out too", 25)]
TESTED = sentence("tested", 14)


@pytest.fixture
def world(tmp_path, monkeypatch):
    """Two sources of one repository each, pinned; what is avoided; a folder."""
    for folder in ("lists", "seen", "heldout"):
        (tmp_path / folder).mkdir()
    monkeypatch.setattr(mirrors, "LISTS", tmp_path / "lists")
    monkeypatch.setattr(seen, "SEEN", tmp_path / "seen")
    monkeypatch.setattr(judge, "HELD_OUT", tmp_path / "heldout")
    monkeypatch.setattr(build_module, "SUMS", tmp_path / "sums.json")
    monkeypatch.setitem(seen.FILES, "english", ("a.conllu",))
    judge.avoided.cache_clear()
    (tmp_path / "a.conllu").write_text(f"# text = {TESTED}\n\n# text = {SHORT}\n")
    seen.write("english", tmp_path)
    for part, line in zip(("valid", "test"), HELD_OUT):
        with lzma.open(tmp_path / f"heldout/english_lm_{part}.txt.xz", "wt") as out:
            out.write(line + "\n")
    books = {
        "corpus/plain.txt": article("plain", 300),
        "corpus/held.txt": article("held", 60) + f"\n\n{HELD_OUT[0]}\n",
    }
    posts = {f"posts/{n}.txt": article(f"post {n}") for n in range(40)}
    posts["posts/tested.txt"] = (
        article("a") + f"\n\nSo it is: {TESTED}\n\n" + article("b")
    )
    posts["posts/short.txt"] = (
        article("c") + f"\n\nHe said: “{SHORT}”\n\n" + article("d")
    )
    posts["posts/copy.txt"] = article("post 3").replace(".", "!")
    posts["posts/half.txt"] = sentence("post 5 0", 30) + "\n\n" + article("e")
    sources = []
    for name, files in (("books", books), ("posts", posts)):
        commit = make_repository(tmp_path / "mirrors" / "someone" / name, files)
        repository = Repository(f"someone/{name}", commit, r"\.txt$")
        source = Source(name, name, "CC0 1.0", "made up", "novels", (repository,))
        parts.pin(source, tmp_path / "mirrors")
        sources.append(source)
    return tmp_path, tuple(sources)


def test_filters_and_report(world):
    folder, sources = world
    report = build("english", sources, folder / "mirrors", folder / "out")
    text = (folder / "out" / "english_train.txt").read_text()
    assert sentence("plain 7", 30) in text
    assert sentence("held 3", 30) not in text  # of a document that is held out
    assert TESTED not in text and SHORT not in text
    assert sentence("a 1", 30) in text and sentence("d 1", 30) in text
    assert article("post 3").split("\n")[0] in text
    assert "!" not in text  # the near-copy
    assert text.count(sentence("post 5 0", 30)) == 1
    assert report["sources"]["books"]["held-out documents"] == 1
    assert report["all sources"]["paragraphs with evaluation runs"] == 1
    assert report["all sources"]["paragraphs with evaluation sentences"] == 1
    assert report["all sources"]["near-duplicate paragraphs"] == 5
    assert report["words"] == len(text.split())
    assert report == json.loads((folder / "out" / "english_train.json").read_text())


def test_the_same_bytes_twice_whatever_was_there(world):
    folder, sources = world
    first = build("english", sources, folder / "mirrors", folder / "out")
    shutil.move(folder / "mirrors", folder / "other")
    second = build("english", sources, folder / "other", folder / "again")
    assert first == second
    assert (folder / "out/english_train.txt").read_bytes() == (
        folder / "again/english_train.txt"
    ).read_bytes()


def test_what_was_judged_of_other_text_is_judged_again(world):
    folder, sources = world
    build("english", sources, folder / "mirrors", folder / "out", record=True)
    part = folder / "out" / "parts" / "posts.txt"
    part.write_text(part.read_text() + f"\nlast\nSo again: {TESTED}\n")
    build("english", sources, folder / "mirrors", folder / "out", record=True)
    text = (folder / "out" / "english_train.txt").read_text()
    assert sentence("a 1", 30) in text and TESTED not in text


def test_goes_on_after_it_was_stopped(world, monkeypatch):
    folder, sources = world
    whole = build("english", sources, folder / "mirrors", folder / "out")

    def stop(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(build_module, "join", stop)
        with pytest.raises(KeyboardInterrupt):
            build("english", sources, folder / "mirrors", folder / "again")
    assert not (folder / "again" / "english_train.txt").exists()
    shutil.rmtree(folder / "mirrors")  # the parts are there: nothing is read again
    assert whole == build("english", sources, folder / "mirrors", folder / "again")


def test_other_bytes_are_told(world):
    folder, sources = world
    build("english", sources, folder / "mirrors", folder / "out", record=True)
    build("english", sources, folder / "mirrors", folder / "out")
    part = folder / "out" / "parts" / "posts.txt"
    part.write_text(part.read_text() + "One more line.\n")
    with pytest.raises(ValueError, match="posts has the SHA-256"):
        build("english", sources, folder / "mirrors", folder / "out")


def test_a_text_with_other_bytes_does_not_replace_what_was_there(world):
    """What reads it does not ask whether the build that made it had an error."""
    folder, sources = world
    inputs = "english", sources, folder / "mirrors", folder / "out"
    build(*inputs, record=True)
    text = folder / "out" / "english_train.txt"
    before, report = text.read_bytes(), text.with_suffix(".json").read_bytes()
    sums = json.loads(build_module.SUMS.read_text())
    build_module.SUMS.write_text(json.dumps(sums | {"english_train": "0"}))
    text.write_bytes(b"what was there")
    with pytest.raises(ValueError, match="english_train has the SHA-256"):
        build(*inputs)
    assert text.read_bytes() == b"what was there" != before
    assert text.with_suffix(".json").read_bytes() == report
    text.unlink()
    with pytest.raises(ValueError, match="english_train has the SHA-256"):
        build(*inputs)
    names = {path.name for path in text.parent.iterdir()}
    assert names == {"parts", "english_train.json"}


def test_long_documents_are_cut_and_mixed(world, monkeypatch):
    folder, sources = world
    build("english", sources, folder / "mirrors", folder / "out")
    text = (folder / "out" / "english_train.txt").read_text()
    documents = text.rstrip("\n").split("\n\n")
    lengths = [len(document.split()) for document in documents]
    assert max(lengths) < 1.2 * join.PIECE
    book = {sentence(f"plain {n}", 30) for n in range(300)}
    of_book = [n for n, d in enumerate(documents) if book & set(d.split("\n"))]
    assert len(of_book) == 4  # 9,000 words
    assert of_book != list(range(of_book[0], of_book[0] + 4))


def test_at_most_so_many_words(world):
    folder, (books, posts) = world
    little = Source(
        "posts", "posts", "CC0 1.0", "", "novels", posts.repositories, max_words=1000
    )
    build("english", (books, posts), folder / "mirrors", folder / "out")
    report = build("english", (books, little), folder / "mirrors", folder / "out")
    assert 800 < report["sources"]["posts"]["words"] <= 1000
    assert report["sources"]["posts"]["over the limit"] > 3000


def test_the_even_text_has_at_most_so_many_words_of_a_genre(world):
    folder, sources = world
    inputs = "english", sources, folder / "mirrors", folder / "out"
    whole = build(*inputs)
    report = build(*inputs, even={"posts": 1000}, limits={"posts": 0})
    texts = [
        (folder / "out" / f"english_{x}.txt").read_text() for x in ("train", "even")
    ]
    train, even = (text.rstrip("\n").split("\n\n") for text in texts)
    of_book = {sentence(f"plain {n}", 30) for n in range(300)}
    of_book |= {sentence(f"held {n}", 30) for n in range(60)}
    posts = [d for d in train if not of_book & set(d.split("\n"))]
    assert even == [d for d in train if d in even or d not in posts]
    n_posts = sum(len(d.split()) for d in even if d in posts)
    assert 800 < n_posts <= 1000
    assert report["even"]["words"] == len(texts[1].split())
    limited = (folder / "out" / "english_limited.txt").read_text()
    assert limited.rstrip("\n").split("\n\n") == [d for d in train if d not in posts]
    assert whole["sha256"] == report["sha256"]
    with pytest.raises(ValueError, match=r"no source is of \['post'\]"):
        build(*inputs, limits={"post": 0})


def test_limits_that_were_recorded_give_the_same_text_again(world):
    folder, sources = world
    inputs = "english", sources, folder / "mirrors", folder / "out"
    build(*inputs, record=True, limits={"posts": 1000})
    build(*inputs, limits={"posts": 1000})
    sums = json.loads(build_module.SUMS.read_text())
    build_module.SUMS.write_text(json.dumps(sums | {"english_limited posts=1000": "0"}))
    build(*inputs, limits={"posts": 500})
    with pytest.raises(ValueError, match="english_limited posts=1000 has the SHA-256"):
        build(*inputs, limits={"posts": 1000})


def test_held_out_texts_are_drawn_of_every_source(world):
    """An excerpt is held out; its whole document is no part of the corpus."""
    folder, sources = world
    for source in sources:
        parts.build_part(source, folder / "mirrors", folder / "out")
    words = heldout.write("english", sources, folder / "out", words=1_000)
    first = [judge.held_out_lines("english", part) for part in ("valid", "test")]
    heldout.write("english", sources, folder / "out", words=1_000)
    found = [judge.held_out_lines("english", part) for part in ("valid", "test")]
    assert found == first and not set(found[0]) & set(found[1])
    judge.avoided.cache_clear()
    report = build("english", sources, folder / "mirrors", folder / "out")
    held = report["sources"]["posts"]["held-out documents"]
    assert held >= 2
    text = (folder / "out" / "english_train.txt").read_text()
    for part, lines in zip(("valid", "test"), found):
        assert words[part] == sum(len(line.split()) for line in lines) > 100
        assert not [line for line in lines if line in text]
