"""How alike tokens are in their contexts.

Not `token.similarity`: that one is 1 for any two tokens of the same spelling, before
it looks at a vector.
"""

from typing import Any

from spacy.tokens import Token
from thinc.api import get_array_module

from .errors import Errors


def similarity(a: Token, b: Token, *, layer: int | None = None) -> float:
    """Cosine of two tokens' contextual vectors, from -1 to 1; 0 for white space, which
    has none.

    layer: number of a biLM layer, 0 being the token layer; None for `doc.tensor`.
    Raises ValueError [EL055] if a Doc has not been through `elmo`.
    """
    u, v = _vector(a, layer), _vector(b, layer)
    xp = get_array_module(u)
    length = xp.linalg.norm(u) * xp.linalg.norm(v)
    return float(u @ v / length) if length else 0.0


def _vector(token: Token, layer: int | None) -> Any:
    if layer is not None:
        return token.doc._.elmo.layers[layer, token.i]
    if len(token.doc.tensor) != len(token.doc):
        raise ValueError(Errors.EL055.format(name="elmo"))
    return token.doc.tensor[token.i]
