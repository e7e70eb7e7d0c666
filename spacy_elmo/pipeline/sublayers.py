"""Token vectors of a task's own, to stand beside ELMo's in `spacy-elmo.Embed.v1`.

spaCy's own fit there as they are (`spacy.MultiHashEmbed.v2` and others).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from spacy.ml.staticvectors import StaticVectors
from spacy.tokens import Doc
from spacy.util import registry
from thinc.api import Model, chain
from thinc.layers import ragged2list
from thinc.types import Floats2d
from torch import Tensor, nn

from ..bilm import BiLMConfig, CharCnnEncoder, draw_weights, encode_words, trim
from ..bilm.kernels import dispatch_key_of, encode_characters, prepare_characters
from ..machine import default_settings, to_device
from .encode import TokenVectors
from .shim import TorchShim, run

FILTERS = [[1, 32], [2, 32], [3, 64], [4, 64]]


@registry.architectures("spacy-elmo.StaticVectors.v1")
def build_static_vectors(width: int) -> TokenVectors:
    """Return a model of the vectors of the pipeline's vocabulary
    (`initialize.vectors`), and one linear layer from them to width columns."""
    model: TokenVectors = chain(StaticVectors(nO=width), ragged2list())
    model.set_dim("nO", width)
    return model


@registry.architectures("spacy-elmo.CharCnn.v1")
def build_char_cnn(
    width: int,
    char_dim: int = 16,
    filters: list[list[int]] = FILTERS,
    n_highway: int = 1,
    max_characters: int = 50,
) -> TokenVectors:
    """Return a char-CNN as the biLM has one (Kim et al. 2015), trained with the task,
    for vectors of width columns. The sizes are those of `BiLMConfig`: `filters` are
    pairs of a width in characters and a number. [EL020] if they don't fit together."""
    config = BiLMConfig(
        hidden_dim=width,
        projection_dim=width,
        char_dim=char_dim,
        filters=tuple((size, n) for size, n in filters),
        n_highway=n_highway,
        max_characters=max_characters,
    )
    inside: Any = Model("pytorch", _forward_rows, shims=[TorchShim(_CharCnn(config))])
    widest = max(size for size, _ in filters)
    attrs = {"max_characters": max_characters, "widest": widest}
    return Model("char-cnn", _forward, dims={"nO": width}, layers=[inside], attrs=attrs)


class _CharCnn(nn.Module):
    @default_settings()
    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.encoder = CharCnnEncoder(config)
        seed = torch.initial_seed() % (1 << 62)
        draw_weights(self.encoder, torch.Generator().manual_seed(seed))

    def forward(self, ids_VC: Tensor, word_N: Tensor) -> Tensor:
        case = dispatch_key_of(self.encoder.char_embedding, "float32")
        weights = prepare_characters(self.encoder, case)
        return encode_characters(self.encoder, weights, ids_VC)[word_N]


@default_settings()
def _forward_rows(
    model: Model[Any, Any], inputs: tuple[np.ndarray, np.ndarray], is_train: bool
) -> tuple[Any, Callable[[Any], None]]:
    shim: Any = model.shims[0]
    return run(shim, tuple(to_device(x, shim.device) for x in inputs), is_train)


def _forward(
    model: Model[Any, Any], docs: list[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Doc]]]:
    number: dict[str, int] = {}
    word_N = [number.setdefault(t.text, len(number)) for doc in docs for t in doc]
    if not word_N:
        return [model.ops.alloc2f(0, model.get_dim("nO")) for _ in docs], lambda dY: []
    ids_VC = encode_words(list(number), model.attrs["max_characters"])
    (wrapped,) = model.layers
    inputs = trim(ids_VC, model.attrs["widest"]), np.array(word_N)
    Y_ND, backprop_rows = wrapped(inputs, is_train)
    # On the host, where they are read one by one.
    lengths: Any = np.array([len(doc) for doc in docs])

    def backprop(dY: list[Floats2d]) -> list[Doc]:
        backprop_rows(model.ops.flatten(dY))
        return []

    return model.ops.unflatten(Y_ND, lengths), backprop
