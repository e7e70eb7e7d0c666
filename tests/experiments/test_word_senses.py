"""Senses of words by what is nearest."""

import io
import tarfile

import numpy as np
import pytest

from experiments import word_senses
from spacy_elmo.bilm.bilm import BiLM

from ..models import tiny_config

SEEN = [
    ("They sat on the bank", "river"),
    ("He walked to the bank", "money"),
    ("She went to a bank", "money"),
    ("It lies at the bank", "money"),
]
ASKED = [("He walked to the bank", "money"), ("We saw a bank", "money")]


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "senses.tar.xz"
    with tarfile.open(path, "w:xz") as files:
        for part, sentences in (("semcor", SEEN), ("masc", ASKED)):
            words = []
            for text, sense in sentences:
                *first, last = text.split()
                words += [f'<word text="{word}"/>' for word in first]
                words += [f'<word text="{last}" lemma="bank" pos="N" sense="{sense}"/>']
                words += ['<word text="." break_level="NO_BREAK"/>']
                words += ['<word text="So" break_level="SENTENCE_BREAK"/>']
            content = f"<doc>{''.join(words)}</doc>".encode()
            member = tarfile.TarInfo(f"corpora/{part}/one.xml")
            member.size = len(content)
            files.addfile(member, io.BytesIO(content))
    return path


def test_occurrences_that_are_equally_near_vote(archive):
    """In the token layer all occurrences of one spelling are, so it gives the sense
    that they most often have."""
    found = word_senses.evaluate(BiLM.random(tiny_config(), seed=1), archive)
    assert found["occurrences"] == 2
    assert found["first_sense"] == 1.0
    assert found["layers"][0] == 1.0


def test_average_and_lstm_layers_are_judged_too(archive):
    """Their cosines are those of vectors that are made here of the layers: the mean,
    and the LSTM layers as unit vectors beside each other."""
    bilm = BiLM.random(tiny_config(), seed=3)

    def unit(vectors):
        return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)

    labelled = [of for of in word_senses.read_corpus(archive, "semcor") if of[1]]
    layers_NLD = np.stack(
        [bilm.encode([tokens])[0][:, senses[0][0]] for tokens, senses in labelled]
    )
    corpus = word_senses.read_corpus(archive, "semcor")
    ((rows_NLD, _),) = word_senses.by_word(
        word_senses.vectors(bilm, corpus, "SemCor")
    ).values()
    average_ND = unit(layers_NLD.mean(1))
    np.testing.assert_allclose(rows_NLD[:, -1], average_ND, atol=1e-3)
    rows_LND = unit(rows_NLD.astype(np.float64)).swapaxes(0, 1)
    found = word_senses.with_lstm_layers(rows_LND @ rows_LND.swapaxes(1, 2))[-1]
    beside = unit(np.concatenate([*unit(rows_LND[1:-1])], axis=1))
    np.testing.assert_allclose(found, beside @ beside.T, atol=1e-9)
    scores = word_senses.evaluate(bilm, archive)
    assert len(scores["layers"]) == bilm.config.n_layers + 1
    assert {"average", "lstm_layers"} < set(scores)


def test_the_nearest_occurrences_vote():
    """One occurrence of a sense is nearest, and more of the other are near: the votes
    of 1 and of all 5 differ, by hand."""

    def at(*degrees):
        angles = np.deg2rad(degrees)
        vectors = np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float16)
        return np.repeat(vectors[:, None], 3, axis=1)

    word = ("bank", "N")
    known = {word: (at(1, 10, 12, 14, 60), np.array(["river", *["money"] * 4]))}
    alone = ("shore", "N")  # with one sense, so that there is nothing to tell
    known[alone] = (at(0, 1), np.array(["river"] * 2))
    asked = {of: (at(0), np.array(["river"])) for of in (word, alone)}
    right_KW = word_senses.right_votes(known, asked, n_ways=4)
    # Of two senses with as many votes the nearer has it.
    expected = word_senses.NEIGHBOURS <= 2
    np.testing.assert_array_equal(right_KW, np.repeat(expected[:, None], 4, axis=1))


def test_parts_of_occurrences_are_joined():
    one = {("a", "N"): (np.zeros((2, 3, 4)), np.array(["x", "y"]))}
    other = {
        ("a", "N"): (np.ones((1, 3, 4)), np.array(["z"])),
        ("b", "N"): (np.ones((3, 3, 4)), np.array(["u", "u", "v"])),
    }
    found = word_senses.joined(one, other)
    assert found["a", "N"][0].sum(axis=(1, 2)).tolist() == [0, 0, 12]
    assert found["a", "N"][1].tolist() == ["x", "y", "z"]
    assert found["b", "N"][1].tolist() == ["u", "u", "v"]
