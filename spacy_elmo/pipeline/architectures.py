"""Where ELMo stands in a task's tok2vec: [x_k; ELMo_k] beside the task's own token
vectors, and [h_k; ELMo_k] where the task's encoder ends (paper, section 3.3).

spaCy's own token vectors fit as they are (`spacy.MultiHashEmbed.v2` and others).
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args

import numpy as np
from spacy.tokens import Doc
from spacy.util import registry
from thinc.api import Maxout, Model, chain, concatenate, with_array
from thinc.layers.concatenate import init as init_side_by_side
from thinc.shims.shim import Shim
from thinc.types import Floats2d

from .. import models as shipped
from ..errors import Errors
from ..words import FILE, WordEncoder

TokenVectors = Model[list[Doc], list[Floats2d]]
Where = Literal["input", "output", "both"]
WORDS_OF = "en_elmo_sm"


@registry.architectures("spacy-elmo.Embed.v1")
def build_embed(embed: TokenVectors, elmo: TokenVectors, width: int) -> TokenVectors:
    """Concatenate the component's own vectors and ELMo's, and project them to the width
    of the encoder above.

    Args:
        embed: The component's own vectors, `spacy.MultiHashEmbed.v2` for instance.
        elmo: `spacy-elmo.ElmoListener.v1`.
        width: Width of the output, (T, width) for each Doc.
    """
    model: TokenVectors = chain(concatenate(embed, elmo), _projection(width))
    model.set_dim("nO", width)
    return model


@registry.architectures("spacy-elmo.Encode.v1")
def build_encode(
    embed: TokenVectors,
    encode: Model[list[Floats2d], list[Floats2d]],
    elmo: TokenVectors,
    width: int,
    at: Where = "both",
) -> Model[list[Doc], list[Floats2d]]:
    """Return a whole tok2vec: the component's own vectors x_k and its encoder, with
    ELMo at the input, [x_k; ELMo_k], at the output, [h_k; ELMo_k], or at both. Each
    place has a mix of its own (Peters et al. 2018, section 3.3).

    Args:
        embed: The component's own vectors, as in `spacy-elmo.Embed.v1`.
        encode: `spacy.MaxoutWindowEncoder.v2`, `spacy.TorchBiLSTMEncoder.v1` (the
            encoder of the paper) or another one that keeps the width.
        elmo: `spacy-elmo.ElmoListener.v1`. The listener at the output is a copy of it,
            so `nlp.replace_listeners` needs its path twice.
        width: Width of the vectors that the encoder reads. The output is as wide as the
            encoder's, and ELMo at the output adds ELMo's width.
        at: "input", "output" or "both".

    Raises:
        ValueError: [EL089] There is no such place. [EL144] The encoder reads vectors of
            another width. [EL141] The component's own vectors have another width, which
            is noticed when they are first computed.
    """
    if at not in get_args(Where):
        raise Errors.EL089(found=at)
    known = [encode.get_dim(dim) for dim in ("nI", "nO") if encode.has_dim(dim)]
    if known and width != known[0]:
        raise Errors.EL144(found=width, expected=known[0])
    if at == "output":
        bottom: TokenVectors = chain(embed, _to_width(width))
    else:
        bottom = build_embed(embed, elmo, width)
    tok2vec: TokenVectors = chain(bottom, encode)
    if encode.has_dim("nO"):
        tok2vec.set_dim("nO", encode.get_dim("nO"))
    if at == "input":
        return tok2vec
    both: TokenVectors = concatenate(tok2vec, elmo if at == "output" else elmo.copy())
    both.init = _init_both
    return both


def _init_both(model: Any, X: list[Doc] | None = None, Y: Any = None) -> None:
    """Initialise both parts without Y, the output of a layer above: Thinc would give it
    to each, and spaCy's static vectors can't be initialised by it."""
    init_side_by_side(model, X)


def _to_width(width: int) -> Model[list[Floats2d], list[Floats2d]]:
    """Return one layer from vectors (T, any) to (T, width); or nothing if they have
    that width, which is known once there are some."""
    layers, attrs = [_projection(width)], {"width": width}
    return Model(
        "to_width", _forward_to_width, init=_init_to_width, layers=layers, attrs=attrs
    )


def _projection(width: int) -> Any:
    return with_array(Maxout(nO=width, nP=3, dropout=0.0, normalize=True))


def _init_to_width(model: Any, X: list[Floats2d] | None = None, Y: Any = None) -> None:
    if X and X[0].shape[1] != model.attrs["width"]:
        model.layers[0].initialize(X)


def _forward_to_width(
    model: Any, X: list[Floats2d], is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Floats2d]]]:
    (project,) = model.layers
    if any(layer.has_param("W") is True for layer in project.walk()):
        return project(X, is_train)
    found, expected = X[0].shape[1] if X else None, model.attrs["width"]
    if found not in (None, expected):
        raise Errors.EL141(found=found, expected=expected)
    return X, lambda dY: dY


# -- architectures of version 0.2 in whose place spaCy's own are used ---------------


@registry.architectures("spacy-elmo.StaticVectors.v1")
def build_static_vectors(width: int) -> NoReturn:
    """Raise ValueError [EL241]."""
    instead = "spacy.MultiHashEmbed.v2 with include_static_vectors = true"
    raise Errors.EL241(name="StaticVectors.v1", instead=instead)


@registry.architectures("spacy-elmo.CharCnn.v1")
def build_char_cnn(
    width: int,
    char_dim: int = 16,
    filters: Any = None,
    n_highway: int = 1,
    max_characters: int = 50,
) -> NoReturn:
    """Raise ValueError [EL241]."""
    instead = "spacy.CharacterEmbed.v2"
    raise Errors.EL241(name="CharCnn.v1", instead=instead)


# -- static vectors of words, [x_k; w_k; ELMo_k] ----------------------------------


def shipped_words(lang: str) -> str | None:
    """Return the shipped model that has vectors of a language's words, None if none."""
    name = shipped.MODELS.get(lang)
    return name if name and (shipped.FOLDER / name / FILE).exists() else None


@registry.architectures("spacy-elmo.Words.v1")
def build_words(
    embed: TokenVectors | None = None, weights: str | Path = WORDS_OF
) -> TokenVectors:
    """Return static word vectors, computed from the spelling. They are not trained.

    Args:
        embed: The component's own vectors, `spacy.MultiHashEmbed.v2` for instance,
            which come first in each row; None for word vectors alone.
        weights: Model folder or file with word vectors, or name of a shipped model.
            `nlp.initialize` reads them, and the pipeline saves them.
    """
    words: TokenVectors = Model(
        "words",
        _forward_words,
        init=_init_words,
        dims={"nO": None},
        shims=[WordsShim(weights)],
    )
    return words if embed is None else concatenate(embed, words)


class WordsShim(Shim):
    """Holds a `WordEncoder`, at first none, and saves it with the pipeline.

    Args:
        weights: As in `spacy-elmo.Words.v1`. A relative path starts from the folder
            that the process works in now.
    """

    def __init__(self, weights: str | Path) -> None:
        super().__init__(None)
        self.weights, self.working_folder = weights, Path()
        with suppress(OSError):  # the folder is gone; a name needs none
            self.working_folder = Path.cwd()

    @property
    def encoder(self) -> WordEncoder:
        """The encoder. Raises ValueError [EL147] if there is none yet."""
        if self._model is None:
            raise Errors.EL147()
        return self._model

    def load(self) -> None:
        """Read the encoder. Raises as `models.find` and `WordEncoder.load`."""
        path = shipped.locate(self.weights, self.working_folder)
        self._model = WordEncoder.load(shipped.find(path))

    def finish_update(self, optimizer: Any) -> None:
        """Do nothing: the vectors are not trained."""

    def to_device(self, device_type: str, device_id: int) -> None:
        """Do nothing: the words are spelled on the CPU."""

    def to_bytes(self) -> bytes:
        """Return the encoder, or nothing if there is none yet."""
        return b"" if self._model is None else self._model.to_bytes()

    def from_bytes(self, data: bytes) -> "WordsShim":
        """Load an encoder. Raises ValueError [EL002] if it is damaged."""
        self._model = WordEncoder.from_bytes(data) if data else None
        return self


def _init_words(model: TokenVectors, X: Any = None, Y: Any = None) -> None:
    shim: Any = model.shims[0]
    shim.load()
    model.set_dim("nO", shim.encoder.width)


def _forward_words(
    model: TokenVectors, docs: list[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Doc]]]:
    shim: Any = model.shims[0]
    vectors_ND = shim.encoder.vectors([token.text for doc in docs for token in doc])
    lengths: Any = np.array([len(doc) for doc in docs])
    Y = model.ops.unflatten(model.ops.asarray2f(vectors_ND), lengths)
    return Y, lambda dY: []
