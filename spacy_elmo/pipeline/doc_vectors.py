"""What a Doc gives its user: its layers, `doc._.elmo`, and the similarity of tokens in
their contexts.

spaCy's own `token.similarity` is 1 for any two tokens of the same spelling, before it
looks at a vector, unless `install_hooks` has put this one in its place.
"""

from typing import Any

from spacy.tokens import Doc, Span, Token
from thinc.api import get_array_module
from thinc.types import Floats3d

from ..errors import Errors
from ..machine import default_settings
from .layers import component_of, tensor_is_elmo


class ElmoLayers:
    """The value of `doc._.elmo`: the layers of a Doc, by component."""

    def __init__(self, doc: Doc) -> None:
        self._doc = doc

    @property
    def layers(self) -> Floats3d:
        """The layers of the last `elmo` component that has read the Doc, float32
        (L+1, T, D). The token layer is the first. Row i belongs to token i, and is zero
        for white space.

        Raises:
            ValueError: [EL055] No component of this process has read the Doc.
        """
        return component_of(self._doc).layers_of(self._doc)

    def __getitem__(self, name: str) -> Floats3d:
        """Return the layers of the component with a name.

        Raises:
            ValueError: [EL055] No such component of this process has read the Doc.
        """
        return component_of(self._doc, name).layers_of(self._doc)


if not Doc.has_extension("elmo"):
    Doc.set_extension("elmo", getter=ElmoLayers)


@default_settings()
def similarity(
    a: Token | Span | Doc, b: Token | Span | Doc, *, layer: int | None = None
) -> float:
    """Return the cosine of the contextual vectors of two tokens, spans or Docs, from -1
    to 1. The vector of a span or Doc is the mean of its tokens' vectors. White space
    and empty Docs have no vector, and a similarity of 0.

    Args:
        a: A token, span or Doc.
        b: Another.
        layer: Number of a biLM layer; 0 is the token layer. None for the vectors that
            `elmo` writes into `doc.tensor`, even if a stock `tok2vec` has overwritten
            them. A Doc from a file or another process has only `doc.tensor`, whichever
            component wrote it.

    Raises:
        ValueError: [EL055] A Doc has not been through `elmo`. [EL140] Its tokens were
            changed afterwards. [EL083] There is no such layer. [EL142] The vectors have
            different widths, so they come from two models.
        TypeError: [EL094] One of them is a lexeme, which has no context.
    """
    u, v = _vector(a, layer), _vector(b, layer)
    if not (u.ndim and v.ndim):  # the tensor of an empty Doc has no width
        return 0.0
    if u.shape != v.shape:
        widths = f"{len(u)} and {len(v)}"
        raise Errors.EL142(widths=widths)
    xp = get_array_module(u)
    length = xp.linalg.norm(u) * xp.linalg.norm(v)
    # Rounded sums can make it a little more than 1.
    return max(-1.0, min(1.0, float(u @ v / length))) if length else 0.0


def install_hooks(doc: Doc) -> None:
    """Have `similarity` of a Doc, its spans and its tokens mean this one."""
    for hooks in (doc.user_hooks, doc.user_span_hooks, doc.user_token_hooks):
        hooks["similarity"] = similarity


def _vector(where: Token | Span | Doc, layer: int | None) -> Any:
    if not isinstance(where, (Token, Span, Doc)):
        raise Errors.EL094(found=type(where).__name__)
    doc = where if isinstance(where, Doc) else where.doc
    if layer is None:
        rows = doc.tensor if tensor_is_elmo(doc) else component_of(doc).vectors_of(doc)
        if len(doc) and not len(rows):
            raise Errors.EL055(name="elmo")
        if len(rows) != len(doc):  # spaCy's retokenizer leaves a row too many
            raise Errors.EL140(found=len(rows), expected=len(doc))
    else:
        layers: Any = doc._.elmo.layers
        if layer not in range(-len(layers), len(layers)):
            raise Errors.EL083(layer=layer, last=len(layers) - 1)
        rows = layers[layer]
    if isinstance(where, Token):
        return rows[where.i]
    if isinstance(where, Span):
        rows = rows[where.start : where.end]
    return rows.mean(axis=0) if len(rows) else rows.sum(axis=0)
