"""Parts of speech by a linear classifier on each layer (paper, section 5.3).

Softmax regression on frozen vectors, trained by Adam until its loss on the dev set
rises; beside it the tag that each word has most often.
"""

import json
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import spacy
import torch
import torch.nn.functional as F
import typer
from spacy.tokens import DocBin
from torch import Tensor
from wasabi import msg

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.models import find

BATCH, EPOCHS, PATIENCE = 512, 30, 2

Tagged = list[tuple[list[str], list[str]]]


def read(path: Path) -> Tagged:
    docs = DocBin().from_disk(path).get_docs(spacy.blank("xx").vocab)
    return [([t.text for t in doc], [t.tag_ for t in doc]) for doc in docs]


def most_frequent(train: Tagged, test: Tagged) -> float:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for words, tags in train:
        for word, tag in zip(words, tags):
            counts[word][tag] += 1
    overall = Counter(tag for _, tags in train for tag in tags).most_common(1)[0][0]
    right = [
        (counts[word].most_common(1)[0][0] if word in counts else overall) == tag
        for words, tags in test
        for word, tag in zip(words, tags)
    ]
    return sum(right) / len(right)


def vectors(bilm: BiLM, tagged: Tagged, layer: int) -> Tensor:
    rows = [
        layers[layer]
        for start in range(0, len(tagged), 512)
        for layers in bilm.encode([words for words, _ in tagged[start : start + 512]])
    ]
    return torch.from_numpy(np.concatenate(rows))


def probe(bilm: BiLM, parts: dict[str, Tagged], layer: int) -> float:
    """Return accuracy on the test set."""
    names = sorted({tag for _, tags in parts["train"] for tag in tags})
    numbers = {tag: i for i, tag in enumerate(names)}
    x = {part: vectors(bilm, tagged, layer) for part, tagged in parts.items()}
    y = {
        part: torch.tensor([numbers.get(t, -1) for _, tags in tagged for t in tags])
        for part, tagged in parts.items()
    }
    generator = torch.Generator().manual_seed(0)
    linear = torch.nn.Linear(x["train"].shape[1], len(names))
    torch.nn.init.zeros_(linear.weight)
    torch.nn.init.zeros_(linear.bias)
    optimizer = torch.optim.Adam(linear.parameters(), lr=1e-3)
    best, worse, accuracy = float("inf"), 0, 0.0
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(y["train"]), generator=generator).split(BATCH):
            optimizer.zero_grad()
            F.cross_entropy(linear(x["train"][rows]), y["train"][rows]).backward()
            optimizer.step()
        with torch.no_grad():
            dev = F.cross_entropy(linear(x["dev"]), y["dev"], ignore_index=-1).item()
            if dev < best:
                best, worse = dev, 0
                found = linear(x["test"]).argmax(1)
                accuracy = (found == y["test"]).float().mean().item()
            else:
                worse += 1
        if worse == PATIENCE:
            break
    return accuracy


def main(
    model: Path = typer.Argument(..., help="Model folder, or a shipped name"),
    corpus: Path = typer.Argument(..., help="Folder with train, dev and test.spacy"),
    output: Path = typer.Argument(..., help="JSON file to write"),
) -> None:
    bilm = BiLM.load(find(model))
    parts = {name: read(corpus / f"{name}.spacy") for name in ("train", "dev", "test")}
    found = {
        "without": most_frequent(parts["train"], parts["test"]),
        "layers": [
            probe(bilm, parts, layer) for layer in range(bilm.config.n_layers + 1)
        ],
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    msg.text(json.dumps(found))


if __name__ == "__main__":
    typer.run(main)
