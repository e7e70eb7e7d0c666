"""Static vectors of words as a layer of a tok2vec, to stand beside the task's own and
ELMo's, [x_k; w_k; ELMo_k] (paper, section 3.3, with a third part)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from spacy.tokens import Doc
from spacy.util import registry
from thinc.api import Model, concatenate
from thinc.shims.shim import Shim
from thinc.types import Floats2d

from .. import models as shipped
from ..errors import Errors
from ..words import FILE, WordEncoder
from .encode import TokenVectors

MODEL = "en_elmo_sm"


def shipped_words(lang: str) -> str | None:
    """Return the shipped model that has vectors of a language's words, None if none."""
    name = shipped.MODELS.get(lang)
    return name if name and (shipped.FOLDER / name / FILE).exists() else None


@registry.architectures("spacy-elmo.Words.v1")
def build_words(
    embed: TokenVectors | None = None, weights: str | Path = MODEL
) -> TokenVectors:
    """Return static vectors of words by their spelling, which are not trained.

    Args:
        embed: The task's own vectors, `spacy.MultiHashEmbed.v2` for instance, which
            stand before them in each row; None for the words' alone.
        weights: Model folder or file with vectors of words, or a shipped name. They are
            read by `nlp.initialize`, and saved with the pipeline.
    """
    shim = WordsShim()
    words: TokenVectors = Model(
        "words",
        _forward,
        init=_init,
        dims={"nO": None},
        shims=[shim],
        attrs={"weights": str(weights)},
    )
    return words if embed is None else concatenate(embed, words)


class WordsShim(Shim):
    """Holds a `WordEncoder`, at first none, and saves it with the pipeline."""

    def __init__(self) -> None:
        super().__init__(None)

    @property
    def encoder(self) -> WordEncoder:
        """The encoder. Raises ValueError [EL147] if there is none yet."""
        if self._model is None:
            raise Errors.EL147()
        return self._model

    def load(self, weights: str) -> None:
        """Read the encoder of a model. Raises as `models.find` and
        `WordEncoder.load`."""
        self._model = WordEncoder.load(shipped.find(weights))

    def finish_update(self, optimizer: Any) -> None:
        """Do nothing: the vectors are not trained."""

    def to_device(self, device_type: str, device_id: int) -> None:
        """Do nothing: the words are spelled on the CPU."""

    def to_bytes(self) -> bytes:
        """Return the encoder, or nothing if there is none yet."""
        return b"" if self._model is None else self._model.to_bytes()

    def from_bytes(self, data: bytes) -> "WordsShim":
        """Load an encoder. Raises ValueError [EL145] if it is damaged."""
        self._model = WordEncoder.from_bytes(data) if data else None
        return self


def _init(model: TokenVectors, X: Any = None, Y: Any = None) -> None:
    shim: Any = model.shims[0]
    shim.load(model.attrs["weights"])
    model.set_dim("nO", shim.encoder.width)


def _forward(
    model: TokenVectors, docs: list[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Doc]]]:
    shim: Any = model.shims[0]
    vectors_ND = shim.encoder.vectors([token.text for doc in docs for token in doc])
    lengths: Any = np.array([len(doc) for doc in docs])
    Y = model.ops.unflatten(model.ops.asarray2f(vectors_ND), lengths)
    return Y, lambda dY: []
