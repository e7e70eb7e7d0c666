"""Word pieces, by hand; a vocabulary's own words are its pieces."""

import pytest

from spacy_elmo.words.pieces import MAX_PART, MAX_PIECES, pieces_of

PIECES = ["[UNK]", "un", "##aff", "##able", "aff", ".", "u", "s", "cafe", "日", "本"]
NUMBERS = {piece: number for number, piece in enumerate(PIECES)}


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("unaffable", ["un", "##aff", "##able"]),
        ("UNAFFABLE", ["un", "##aff", "##able"]),
        ("affable", ["aff", "##able"]),
        ("U.S.", ["u", ".", "s", "."]),
        ("Café", ["cafe"]),
        ("Cafe\u0301", ["cafe"]),
        ("ca\u00adfe", ["cafe"]),  # a soft hyphen
        ("日本", ["日", "本"]),
        ("u s", ["u", "s"]),
        ("unx", ["[UNK]"]),  # a part is known whole, or not at all
        ("unx.un", ["[UNK]", ".", "un"]),
        ("한국", ["[UNK]"]),
        ("", []),
        (" \t\u3000", []),
        ("\x00\u200b", []),
    ],
)
def test_pieces(word, expected):
    assert [PIECES[n] for n in pieces_of(word, NUMBERS)] == expected


def test_long_words_are_cut():
    assert pieces_of("u" * (MAX_PART + 1), NUMBERS) == [0]
    assert pieces_of("." * 10**6, NUMBERS) == [5] * MAX_PIECES
    assert pieces_of("u" * 10**6, NUMBERS) == [0]
