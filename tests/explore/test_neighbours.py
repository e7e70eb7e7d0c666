"""Nearest contexts of words, and word senses by them."""

import io
import json
import tarfile

import numpy as np
import pytest

from experiments import word_in_context, word_senses
from spacy_elmo import models as shipped
from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.explore import Context, contexts_of, nearest_contexts, nearest_words
from spacy_elmo.explore.neighbours import may_match, nearest, unit_vectors

from ..cli.test_cli import run
from ..models import tiny_config

ENGLISH = shipped.MODELS["en"]
SENTENCES = [
    ["They", "play", "cards", "."],
    ["A", "Play", "in", "three", "acts"],
    ["played", "replay"],
    ["배가", "고프다", "배"],
]


@pytest.fixture(scope="module")
def bilm():
    return BiLM.random(tiny_config(), seed=1)


def test_contexts_are_tokens_that_match_whole():
    assert list(contexts_of("play", SENTENCES)) == [
        Context(SENTENCES[0], 1),
        Context(SENTENCES[1], 1),
    ]
    assert len(list(contexts_of("play(ed)?", SENTENCES))) == 3
    assert [c.position for c in contexts_of("배(가|는)?", SENTENCES)] == [0, 2]
    assert str(Context(SENTENCES[0], 1)) == "They [play] cards ."
    for pattern in ("play(", "play{99999999999}", "(" * 9999):
        with pytest.raises(ValueError, match="EL082"):
            list(contexts_of(pattern, SENTENCES))


@pytest.mark.parametrize("layer", [0, 1, 2, -1])
def test_vectors_are_those_of_the_sentence_of_length_one(bilm, layer):
    contexts = list(contexts_of(".*", SENTENCES))
    found = unit_vectors(bilm, contexts, layer)
    for context, vector in zip(contexts, found):
        expected = bilm.encode([context.sentence])[0][layer, context.position]
        assert np.allclose(vector * np.linalg.norm(expected), expected, atol=1e-6)
        assert np.isclose(np.linalg.norm(vector), 1)


def test_sentences_that_come_again_push_out_no_other(bilm):
    text = [["They", "play", "cards"]] * 10 + [["A", "play", "in"], ["play"] * 5]
    contexts = list(contexts_of("play", text))
    for query, others in ((contexts[0], text[10:]), (contexts[-1], text[:11])):
        found = nearest_contexts(bilm, [query], contexts, 3)
        assert len(found) == 3 and all(n.nearest.sentence in others for n in found)


def test_no_such_layer(bilm):
    for layer in (3, -4):
        with pytest.raises(ValueError, match=r"EL083.*last layer is 2"):
            unit_vectors(bilm, [], layer)


def test_nearest_by_cosine():
    rng = np.random.default_rng(0)
    query, among = rng.normal(size=(3, 5)), rng.normal(size=(20, 5))
    query, among = (x / np.linalg.norm(x, axis=1)[:, None] for x in (query, among))
    of_query, of_others = np.array([20, 20, 0]), np.arange(20) // 2
    near, cosines = nearest(query, of_query, among, of_others, 4)
    for q, own, found, cosine in zip(query, of_query, near, cosines):
        angles = [np.arccos(np.clip(q @ a, -1, 1)) for a in among]
        others = [i for i in range(20) if of_others[i] != own]
        assert found.tolist() == sorted(others, key=lambda i: angles[i])[:4]
        assert np.allclose(np.arccos(cosine), [angles[i] for i in found], atol=1e-3)
    assert (nearest(query, of_query, among[:2], of_others[:2], 4)[0][2] == -1).all()


def _lines_with(pattern, lines):
    return list(filter(may_match(pattern), lines))


def test_only_lines_that_may_match_are_tokenized():
    lines = ["They play.", "None here", "PLAYED", "배가 고프다"]
    assert list(_lines_with("play", lines)) == ["They play.", "PLAYED"]
    assert list(_lines_with("배(가)?", lines)) == ["배가 고프다"]
    for looks_around in ("^play$", r"\bplay", "play(?!ed)"):  # at a token, not the line
        assert "They play." in _lines_with(looks_around, lines)
    with pytest.raises(ValueError, match="EL082"):
        _lines_with("play(", lines)


def test_nearest_words_of_one_vector_each():
    vocab = ["the", "cat", "dog", "Dog", "car"]
    vectors = np.array([[0, 0], [3, 1], [1, 0], [9, 9], [-2, 0]], dtype=np.float32)
    assert nearest_words("dog", vocab, vectors, 2) == ["cat", "Dog"]
    assert nearest_words("c.*", vocab, vectors, 1) == ["dog"]  # cat, the first
    assert nearest_words("mouse", vocab, vectors, 2) == []


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    lines = [
        "He wrote a play in three acts for the theatre.",
        "The critics praised the new play and its actors on the stage.",
        "The boys play football after school.",
        "We will play against a strong team on Saturday.",
        "No word of it here.",
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_command(text, tmp_path):
    sentence = "They play tennis with friends every evening."
    options = ["--word", "PLAY", "--context", sentence, "--n-nearest", "4"]
    rows = json.loads(run("explore", "word", ENGLISH, text, *options, "--json"))
    assert [row["context"] for row in rows] == [
        "They [play] tennis with friends every evening ."
    ] * 4
    assert [row["cosine"] for row in rows] == sorted(
        (row["cosine"] for row in rows), reverse=True
    )
    assert all("football" in r["nearest"] or "team" in r["nearest"] for r in rows[:2])
    table = tmp_path / "new" / "table.md"
    run("explore", "word", ENGLISH, text, "--word", "play", "--output", table)
    lines = table.read_text(encoding="utf-8").splitlines()
    title, _, words = lines[0].partition(". Nearest words without context: ")
    assert title == "**play** (4 contexts)"
    assert len(words.split(", ")) == 8 and "play" not in words.split(", ")
    page, mine = table.read_bytes(), "of another encoding: ä".encode("latin-1")
    table.write_bytes(mine)
    run("explore", "word", ENGLISH, text, "--word", "play", "--output", table)
    assert table.read_bytes() == mine + page
    few = [
        "--word",
        "play",
        "--max-contexts",
        "2",
        "--n-nearest",
        "9",
        "--n-contexts",
        "1",
    ]
    (row,) = json.loads(run("explore", "word", ENGLISH, text, *few, "--json"))
    assert "critics" in row["nearest"]
    pairs = [line.strip("| ").split(" | ")[:2] for line in lines[4:] if line]
    assert len(pairs) == 4 * 3
    assert all(context != near for context, near in pairs)


@pytest.mark.parametrize(
    ("code", "options"),
    [
        ("EL084", ["--word", "absent"]),
        ("EL084", ["--word", "play", "--context", "Nothing."]),
        ("EL082", ["--word", "("]),
        ("EL083", ["--word", "play", "--layer", "9"]),
        ("Invalid value", ["--word", "play", "--n-contexts", "0"]),
    ],
)
def test_command_on_bad_input(code, options, text):
    assert code in run("explore", "word", ENGLISH, text, *options, fails=True)


def document(*sentences):
    """Tokens as word, or word|sense."""
    words = []
    for sentence in sentences:
        for i, token in enumerate(sentence.split()):
            word, _, sense = token.partition("|")
            label = f'lemma="{word}" pos="NOUN" sense="{sense}"' if sense else ""
            level = "SPACE_BREAK" if i else "SENTENCE_BREAK"
            words.append(f'<word text="{word}" {label} break_level="{level}"/>')
    return f'<SimpleWsdDoc name="x">{"".join(words)}</SimpleWsdDoc>'.encode()


def test_senses_by_nearest_neighbour(tmp_path, bilm):
    river, money = "the bank|river of it", "a bank|money for all"
    archive = tmp_path / "senses.tar.xz"
    parts = {
        "x/semcor/a.xml": document(river, money, river, "one cat|animal"),
        "x/masc/sub/b.xml": document(money, river, money, money, "one cat|animal"),
    }
    with tarfile.open(archive, "w:xz") as files:
        for name, content in parts.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            files.addfile(member, io.BytesIO(content))
    found = word_senses.evaluate(bilm, archive)
    # The same sentences again are nearest to themselves where there is context, and
    # "cat", which has one sense, does not count.
    assert found["occurrences"] == 4
    assert found["first_sense"] == 1 / 4
    assert found["layers"][1:] == [1.0, 1.0]
    assert found["layers"][0] in (1 / 4, 3 / 4)
    pairs = word_senses.evaluate_pairs(bilm, archive)
    # Three pairs of one sense are of the same sentence; three of two senses.
    assert pairs["comparisons"] == 9
    assert pairs["layers"] == [0.5, 1.0, 1.0]
    rows = word_in_context.evaluate(word_in_context.read(bilm, archive))
    # One pair of one sense, of the same sentence, and one of two, all of four words.
    assert rows["pairs"] == {"all": 2, "1-15": 2, "16-30": 0, "from 31": 0}
    right = rows["right"]["all"]
    assert right["layer 0"]["raw"] == 0.5
    assert set(right["layer 1"].values()) == set(right["layer 2"].values()) == {1.0}
