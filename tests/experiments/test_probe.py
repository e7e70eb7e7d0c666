"""What a linear classifier on a layer finds."""

import numpy as np
import spacy
from spacy.tokens import Doc, DocBin

from experiments import probe
from spacy_elmo.bilm.bilm import BiLM

from ..models import tiny_config


def test_probe_finds_what_is_in_a_layer(tmp_path):
    """Tags that follow the word are found by the most frequent one and by the token
    layer; tags that follow the word before it only where there is context."""
    sizes = {"hidden_dim": 64, "projection_dim": 32}
    clips = {"cell_clip": None, "proj_clip": None}
    bilm = BiLM.random(tiny_config(**sizes, **clips), seed=1)
    rng = np.random.default_rng(0)
    vocab = spacy.blank("xx").vocab
    for name, by_neighbour in (("own", False), ("context", True)):
        folder = tmp_path / name
        folder.mkdir()
        for part, n in (("train", 300), ("dev", 40), ("test", 40)):
            docs = []
            for _ in range(n):
                words = rng.choice(["red", "blue", "green"], size=6).tolist()
                tags = ["first", *words[:-1]] if by_neighbour else words
                docs.append(Doc(vocab, words=words, tags=tags))
            DocBin(docs=docs).to_disk(folder / f"{part}.spacy")
    found = {}
    for name in ("own", "context"):
        parts = {
            part: probe.read(tmp_path / name / f"{part}.spacy")
            for part in ("train", "dev", "test")
        }
        found[name] = [probe.most_frequent(parts["train"], parts["test"])]
        found[name] += [probe.probe(bilm, parts, layer) for layer in (0, 1)]
    assert found["own"][:2] == [1.0, 1.0]
    assert found["context"][2] > max(found["context"][:2]) + 0.1
