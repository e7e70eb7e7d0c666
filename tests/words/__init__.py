"""Encoders of words with random weights."""

import numpy as np

from spacy_elmo.words import WordEncoder

PIECES = [
    "[UNK]",
    "[CLS]",
    "[SEP]",
    *"abcdefgh.,",
    "##a",
    "##b",
    "##c",
    "ab",
    "##cde",
    "日",
]


def tiny_arrays(seed=0, embedding=6, hidden=5, depth=2, width=4):
    """Arrays of an encoder, all of them drawn."""
    draw = np.random.default_rng(seed)
    arrays = {
        "format": np.array(1, dtype=np.int32),
        "pieces": np.frombuffer("\n".join(PIECES).encode(), dtype=np.uint8),
        "table": draw.integers(-127, 128, (len(PIECES), embedding), dtype=np.int8),
    }
    sizes = [embedding] + [hidden] * depth
    names = [*(f"layer.{number}" for number in range(depth)), "output"]
    for name, size in zip(names, sizes, strict=True):
        rows, columns = (size, width) if name == "output" else (3 * size, hidden)
        weight = draw.integers(-127, 128, (rows, columns), dtype=np.int8)
        arrays[f"{name}.weight"] = weight
        arrays[f"{name}.scale"] = draw.uniform(0, 0.01, columns).astype(np.float32)
        arrays[f"{name}.bias"] = draw.normal(0, 9, columns).astype(np.float32)
    return arrays


def tiny_encoder(**sizes):
    return WordEncoder(tiny_arrays(**sizes))
