"""Two senses of a word, told apart by their contexts."""

import spacy
import typer
from wasabi import msg

from spacy_elmo.component.similarity import similarity

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


def main() -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    for word, sentences in SENTENCES.items():
        tokens = []
        for sense, text in sentences:
            doc = nlp(text)
            tokens.append((sense, next(token for token in doc if token.lower_ == word)))
        n_right = 0
        table = []
        for sense, token in tokens:
            others = [other for other in tokens if other[1] is not token]
            near_sense, near = max(
                others, key=lambda other: similarity(token, other[1])
            )
            n_right += near_sense == sense
            score = f"{similarity(token, near):.2f}"
            table.append((sense, token.doc.text, near_sense, near.doc.text, score))
        msg.divider(f"'{word}': nearest of the other contexts")
        header = ("sense", "context", "nearest", "its context", "cosine")
        msg.table(table, header=header, divider=True, max_col=60)
        print(f"{n_right} of {len(tokens)} have their own sense nearest")


if __name__ == "__main__":
    typer.run(main)
