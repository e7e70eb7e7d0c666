"""Search by context: vectors of a corpus in files, and what is nearest to a sentence.

    python examples/search.py
    python examples/search.py --word bank --query "The bank lent us money ."

Vectors are written once; the search reads them where they lie on the disk.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

from spacy_elmo import BiLM, embed
from spacy_elmo.models import find

DEMO = Path(__file__).resolve().parents[1] / "assets" / "demo"
MODEL = "en_elmo_sm"


def contexts(corpus, word):
    """Yield the sentences of a corpus with a word, and its vector in each, (D,)."""
    for sentence in corpus.sentences():
        for token, vector in zip(sentence.tokens, sentence.vectors):
            if token.lower() == word:
                yield " ".join(sentence.tokens), np.asarray(vector, dtype=np.float32)


def vector_of(word, query):
    """Return the vector of a word in a sentence: the average of the layers, as those
    of the corpus."""
    tokens = query.split()
    lowered = [token.lower() for token in tokens]
    if word not in lowered:
        raise SystemExit(f"The query has to have the word '{word}'.")
    layers = BiLM.load(find(MODEL)).encode([tokens])[0]
    return layers.mean(axis=0)[lowered.index(word)]


def main(word: str, query: str, n: int) -> None:
    word = word.lower()
    vector = vector_of(word, query)
    with tempfile.TemporaryDirectory() as folder:
        embed.make_plan(MODEL, [str(DEMO / "train.txt")], Path(folder))
        embed.run(Path(folder))
        found = list(contexts(embed.open(folder), word))
    if not found:
        raise SystemExit(f"The corpus does not have the word '{word}'.")
    sentences, vectors = zip(*found)
    matrix = np.stack(vectors)
    cosines = matrix @ vector / np.linalg.norm(matrix, axis=1) / np.linalg.norm(vector)
    print(f"{len(sentences)} contexts of '{word}'; nearest to: {query}")
    for i in np.argsort(-cosines)[:n]:
        print(f"{cosines[i]:.2f}  {sentences[i]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--word", default="bank")
    parser.add_argument("--query", default="We walked along the bank of the river .")
    parser.add_argument("-n", type=int, default=5)
    arguments = parser.parse_args()
    main(arguments.word, arguments.query, arguments.n)
