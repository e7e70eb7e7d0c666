import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_elmo import BiLM
from spacy_elmo.bilm import words as characters
from spacy_elmo.bilm.words import encode_words, trim

from ..models import any_token, tiny_config


@given(words=st.lists(any_token, min_size=1), size=st.integers(3, 60))
def test_any_text_gives_well_formed_ids(words, size):
    ids = encode_words(words, size)
    assert ids.shape == (len(words), size)
    for row, word in zip(ids.tolist(), words):
        end = row.index(characters.END_WORD)
        assert row[0] == characters.BEGIN_WORD
        assert set(row[end + 1 :]) <= {characters.PADDING}
        if word not in ("<S>", "</S>"):
            assert (
                bytes(i - 1 for i in row[1:end])
                == word.encode("utf-8", "ignore")[: size - 2]
            )


@given(words=st.lists(any_token, min_size=1), widest=st.integers(1, 50))
def test_trimming_keeps_every_character_and_a_window_of_padding(words, widest):
    ids = encode_words(words)
    cut = trim(ids, widest)
    assert (ids[:, cut.shape[1] :] == characters.PADDING).all()
    longest = max(row.index(characters.END_WORD) for row in ids.tolist()) + 1
    assert cut.shape == (len(words), min(50, longest + widest))


def test_boundaries_and_korean():
    ids = encode_words(["<S>", "</S>", "가"])
    assert ids[0, :4].tolist() == [259, 257, 260, 261]
    assert ids[1, :4].tolist() == [259, 258, 260, 261]
    assert ids[2, :6].tolist() == [259, 0xEA + 1, 0xB0 + 1, 0x80 + 1, 260, 261]


def test_lone_surrogates_and_long_tokens():
    ids = encode_words(["a\ud800b", "ab", "z" * 10_000, "z" * 48])
    assert np.array_equal(ids[0], ids[1])
    assert np.array_equal(ids[2], ids[3])


ALPHABET = [*characters.MARKS, *"abc가나"]


def one_by_one(words, size):
    """Return ids in an alphabet, character by character."""
    number = {c: i for i, c in enumerate(ALPHABET, start=1)}
    rows = []
    for word in words:
        inner = [number.get(c, number["<oov>"]) for c in word[: size - 2]]
        if word in ("<S>", "</S>"):
            inner = [number["<bos>" if word == "<S>" else "<eos>"]]
        row = [number["<bow>"], *inner, number["<eow>"]]
        rows.append(row + [number["<pad>"]] * (size - len(row)))
    return rows


@given(
    words=st.lists(
        any_token | st.text("abc가나<S/>") | st.sampled_from(["<S>", "</S>"])
    ),
    size=st.integers(3, 60),
)
def test_ids_in_an_alphabet(words, size):
    number = {c: i for i, c in enumerate(ALPHABET, start=1)}
    ids = characters.encode_words_in(number, words, size)
    assert ids.shape == (len(words), size) and ids.dtype == np.int64
    assert ids.tolist() == one_by_one(words, size)


def test_random_weights_have_no_alphabet():
    n = len(ALPHABET) + 1
    bilm = BiLM.random(tiny_config(characters="alphabet", n_characters=n))
    with pytest.raises(ValueError, match=r"EL020.*alphabet"):
        bilm.encode([["a"]])
    bilm.alphabet = ALPHABET
    assert bilm.character_ids(["a"]).tolist() == one_by_one(["a"], 50)
    bilm.encode([["a"]])


def test_no_words():
    assert encode_words([]).shape == (0, 50)


def test_ids_follow_a_vocabulary_that_is_replaced():
    config = tiny_config(n_words=3)
    bilm = BiLM.random(config, vocab=["<UNK>", "a", "b"])
    before = bilm.encode([["a"], ["b"], ["c"]])
    bilm.vocab = ["<UNK>", "b", "a"]
    bilm.token_cache.clear()
    after = bilm.encode([["b"], ["a"], ["c"]])
    assert all(np.array_equal(x, y) for x, y in zip(before, after))
