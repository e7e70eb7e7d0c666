"""The vectors of words that ship."""

import hashlib

import numpy as np
import pytest

from spacy_elmo import models as shipped
from spacy_elmo.words import WordEncoder

WORDS = [
    "Paris", "paris", "Zürich", "Zurich", "Qwertyson", "U.S.", "don't", "@someone",
    "#ELMo", "한국어", "日本", "😀", "…", "1,234.5", "http://example.com/a_b", "",
    "a" * 3000, "?!" * 500,
]  # fmt: skip
DIGEST = "d5d8f4b87d1566b2d6cc9fa47ca13e3dbc5e48ecb28ca96f7376b8500a9863a6"


@pytest.fixture(scope="module")
def encoder():
    return WordEncoder.load(shipped.find("en_elmo_sm"))


def test_they_have_the_same_bits_everywhere(encoder):
    """What they were on the machine that they were made on."""
    found = encoder.vectors(WORDS)
    little = found.astype("<f4").tobytes()
    assert hashlib.sha256(little).hexdigest() == DIGEST


def test_they_are_finite_and_differ(encoder):
    found = encoder.vectors(WORDS)
    assert found.shape == (len(WORDS), 128) and np.isfinite(found).all()
    assert (found[0] == found[1]).all() and (found[2] == found[3]).all()
    assert not found[WORDS.index("")].any()
    # An emoji, and a word of 3,000 letters, are unknown as a whole.
    assert (found[WORDS.index("😀")] == found[WORDS.index("a" * 3000)]).all()
    others = np.delete(found, [1, 3, WORDS.index("😀")], axis=0)
    assert len(np.unique(others, axis=0)) == len(others)


@pytest.mark.parametrize(
    ("word", "near", "far"),
    [
        ("Berlin", "London", "running"),
        ("Microsoft", "Samsung", "London"),
        ("happy", "sad", "Tuesday"),
        ("Tuesday", "Monday", "Berlin"),
    ],
)
def test_words_of_like_meaning_are_near(encoder, word, near, far):
    a, b, c = encoder.vectors([word, near, far])

    def cosine(x, y):
        return x @ y / np.linalg.norm(x) / np.linalg.norm(y)

    assert cosine(a, b) > cosine(a, c) + 0.1
