"""ELMo beside the task's own token vectors, [x_k; ELMo_k], and again where the task's
encoder ends, [h_k; ELMo_k] (paper, section 3.3)."""

from collections.abc import Callable
from typing import Any, Literal, get_args

from spacy.tokens import Doc
from spacy.util import registry
from thinc.api import Maxout, Model, chain, concatenate, with_array
from thinc.layers.concatenate import init as init_side_by_side
from thinc.types import Floats2d

from ..errors import Errors

TokenVectors = Model[list[Doc], list[Floats2d]]
Where = Literal["input", "output", "both"]


@registry.architectures("spacy-elmo.Embed.v1")
def build_embed(embed: TokenVectors, elmo: TokenVectors, width: int) -> TokenVectors:
    """Return vectors of the task's own and of ELMo, side by side, and one layer down to
    the width of the encoder above.

    Args:
        embed: The task's own, `spacy.MultiHashEmbed.v2` for instance.
        elmo: `spacy-elmo.ElmoListener.v1`.
        width: Of the vectors that come out, (T, width) for each Doc.
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
    """Return a whole tok2vec: the task's own vectors x_k and its encoder, with ELMo at
    the input, [x_k; ELMo_k], at the output, [h_k; ELMo_k], or at both, each with a mix
    of its own.

    Args:
        embed: The task's own vectors, as in `spacy-elmo.Embed.v1`.
        encode: `spacy.MaxoutWindowEncoder.v2`, `spacy.TorchBiLSTMEncoder.v1` (the
            paper's) or any other that keeps the width.
        elmo: `spacy-elmo.ElmoListener.v1`; the one at the output is a copy of it (and
            `nlp.replace_listeners` is to be given its path twice).
        width: Of what the encoder reads. What comes out is as wide as the encoder's
            output, and where ELMo is at the output wider by ELMo's width.
        at: "input", "output" or "both".

    Raises:
        ValueError: [EL089] for another place, [EL144] if the encoder reads vectors of
            another width; [EL141], when it is initialised, if its own vectors do not
            have it.
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
    """Initialise what stands side by side without Y, the output of a layer above, which
    Thinc would give to each part. spaCy's static vectors can't be initialised by it."""
    init_side_by_side(model, X)


def _to_width(width: int) -> Model[list[Floats2d], list[Floats2d]]:
    """Return one layer from vectors (T, any) to (T, width); or nothing if they have
    that width, which is known once there are some."""
    layers, attrs = [_projection(width)], {"width": width}
    return Model("to_width", _forward, init=_init, layers=layers, attrs=attrs)


def _projection(width: int) -> Any:
    return with_array(Maxout(nO=width, nP=3, dropout=0.0, normalize=True))


def _init(model: Any, X: list[Floats2d] | None = None, Y: Any = None) -> None:
    if X and X[0].shape[1] != model.attrs["width"]:
        model.layers[0].initialize(X)


def _forward(
    model: Any, X: list[Floats2d], is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Floats2d]]]:
    (project,) = model.layers
    if any(layer.has_param("W") is True for layer in project.walk()):
        return project(X, is_train)
    found, expected = X[0].shape[1] if X else None, model.attrs["width"]
    if found not in (None, expected):
        raise Errors.EL141(found=found, expected=expected)
    return X, lambda dY: dY
