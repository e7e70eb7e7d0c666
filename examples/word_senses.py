"""Senses of a word: its contexts in a text, and which of them are nearest.

python examples/word_senses.py
python examples/word_senses.py --word play
"""

import argparse

import spacy

from spacy_elmo import similarity

SENTENCES = {
    "bank": [
        ("money", "She keeps all her money at the bank in town."),
        ("money", "The bank gave him a loan for his shop."),
        ("money", "They asked the bank to open a new account."),
        ("river", "They sat on the grassy bank of the river."),
        ("river", "A boat was tied up near the left bank of the stream."),
        ("river", "Tall trees grow along the bank of the river."),
    ],
    "play": [
        ("stage", "He wrote a play in three acts for the theatre."),
        ("stage", "The new play was praised by all the critics."),
        ("stage", "An actor forgot his lines in the first play."),
        ("game", "The boys play football after school."),
        ("game", "They play cards every evening at home."),
        ("game", "We will play against a strong team tomorrow."),
    ],
}


def nearest_sense(tokens, token):
    """Return the sense and sentence of the context that is nearest to a token's."""
    others = [other for other in tokens if other[1] is not token]
    sense, near = max(others, key=lambda other: similarity(token, other[1]))
    return sense, near.doc.text, similarity(token, near)


def main(word: str) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    senses, texts = zip(*SENTENCES[word])
    docs = nlp.pipe(texts)
    tokens = [
        (sense, next(token for token in doc if token.text == word))
        for sense, doc in zip(senses, docs)
    ]
    n_right = 0
    for sense, token in tokens:
        near_sense, near, cosine = nearest_sense(tokens, token)
        n_right += near_sense == sense
        print(f"{sense:6} {token.doc.text}")
        print(f"{cosine:6.2f} {near_sense}: {near}")
    print(f"{n_right} of {len(tokens)} contexts have one of their own sense nearest")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--word", choices=SENTENCES, default="bank")
    main(parser.parse_args().word)
