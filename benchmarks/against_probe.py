"""What `against.py` runs under each of two revisions of the package.

It uses only names that all revisions have, and imports nothing of this repository but
the package itself:

    python against_probe.py vectors SENTENCES.json OUTPUT.npz MODEL ...
    python against_probe.py save MODEL FOLDER
    python against_probe.py read SENTENCES.json MODEL

A MODEL is a folder, the name of one that ships, or "random": the small published size.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

import spacy_elmo
from spacy_elmo import BiLM
from spacy_elmo.bilm.config import BiLMConfig

BATCH_SIZE, SINGLE = 64, 20


def load(name):
    """Return a model; the defaults of BiLMConfig are the small published size."""
    shipped = Path(spacy_elmo.__file__).parent / "models" / name
    if name == "random":
        return BiLM.random(BiLMConfig())
    return BiLM.load(shipped if shipped.exists() else name)


def vectors(sentences, output, *names):
    """Write the layers of all sentences, one array for each model."""
    found = {}
    for name in names:
        layers = load(name).encode(read_json(sentences))
        found[name] = np.concatenate([x.reshape(-1) for x in layers])
    np.savez(output, **found)


def read_json(path):
    return json.loads(Path(path).read_text("utf-8"))


def save(name, folder):
    load(name).save(folder)


def read(sentences, name):
    """For each line of the standard input print the seconds of one round: "batches" of
    64 sentences, or "single" ones of 20 tokens."""
    sentences = read_json(sentences)
    bilm = load(name)
    batches = [
        sentences[i : i + BATCH_SIZE] for i in range(0, len(sentences), BATCH_SIZE)
    ]
    work = {"batches": batches, "single": [[s] for s in sentences[:SINGLE]]}
    for line in sys.stdin:
        started = time.perf_counter()
        for batch in work[line.strip()]:
            bilm.encode(batch)
        print(time.perf_counter() - started, flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"vectors": vectors, "save": save, "read": read}[sys.argv[1]](*sys.argv[2:])
