"""Reading the demo corpus: one sentence per line, `word|tag|entity` for each token."""

from pathlib import Path

from spacy.tokens import Doc
from spacy.training import Example

DEMO = Path(__file__).resolve().parents[1] / "assets" / "demo"


def read(nlp, *paths):
    """Return an Example for each sentence of some files."""
    examples = []
    for path in paths:
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.strip():
                words, tags, entities = zip(*(t.split("|") for t in line.split()))
                gold = Doc(nlp.vocab, words=words, tags=tags, ents=entities)
                examples.append(Example(Doc(nlp.vocab, words=words), gold))
    return examples


def train(nlp, examples, updates, batch_size=16, seed=0):
    """Train a pipeline for some updates, over the examples again and again."""
    import random

    from spacy.util import fix_random_seed

    fix_random_seed(seed)
    optimizer = nlp.initialize(lambda: examples)
    shuffled = random.Random(seed)
    batch = []
    for _ in range(updates):
        while len(batch) < batch_size:
            batch += shuffled.sample(examples, len(examples))
        nlp.update(batch[:batch_size], sgd=optimizer, drop=0.1)
        batch = batch[batch_size:]
