"""Small random models, their configurations, and strategies for text."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.kernels import check_precision, dispatch_key_of
from spacy_elmo.bilm.weights import WritableFormat
from spacy_elmo.bilm.weights.format import formats


def tiny_config(**changes: Any) -> BiLMConfig:
    sizes: dict[str, Any] = {
        "hidden_dim": 12,
        "projection_dim": 6,
        "char_dim": 4,
        "filters": ((1, 4), (2, 5), (3, 7)),
        "n_highway": 2,
        # Low enough that both clips are at work.
        "cell_clip": 0.4,
        "proj_clip": 0.3,
    }
    return BiLMConfig(**{**sizes, **changes})


# The formats of weights of this package, and those of them that can be written.
OURS = {
    name: known
    for name, known in formats().items()
    if type(known).__module__.startswith("spacy_elmo.")
}
OURS_TO_WRITE = [name for name, f in OURS.items() if isinstance(f, WritableFormat)]

# Sizes that fill vectors of numbers.
EVEN_SIZES = BiLMConfig(hidden_dim=64, projection_dim=32, filters=((1, 16), (3, 48)))

# Any string there is, lone surrogates included, which UTF-8 can't encode.
any_token = st.text(st.characters(codec=None, categories=None), max_size=60)
any_sentence = st.lists(any_token, max_size=12)
sentences = st.lists(any_sentence, min_size=1, max_size=6)

SENTENCES = [["The", "cat"], ["고양이", "가", "잔다", "."]]


def needs(precision: str) -> None:
    """Skip a test where a CPU does not have a precision."""
    try:
        check_precision(precision, dispatch_key_of(torch.empty(0), precision))
    except ValueError:
        pytest.skip(f"no {precision} without the library")


def same_layers(a: BiLM, b: BiLM) -> bool:
    pairs = zip(a.encode(SENTENCES), b.encode(SENTENCES))
    return all(np.array_equal(x, y) for x, y in pairs)
