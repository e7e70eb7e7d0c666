"""How alike tokens are in their contexts.

Not `token.similarity`: that one is 1 for any two tokens of the same spelling, before
it looks at a vector.
"""

from spacy.tokens import Token
from thinc.api import get_array_module


def similarity(a: Token, b: Token, *, layer: int | None = None) -> float:
    """Cosine of two tokens' contextual vectors, from -1 to 1.

    layer: number of a biLM layer, 0 being the token layer; None for `doc.tensor`.
    Raises ValueError [EL055] if a Doc has not been through `elmo`; a token without a
    vector (white space) is like nothing, 0.
    """
    u, v = (
        token.doc.tensor[token.i]
        if layer is None
        else token.doc._.elmo.layers[layer, token.i]
        for token in (a, b)
    )
    xp = get_array_module(u)
    length = xp.linalg.norm(u) * xp.linalg.norm(v)
    return float(u @ v / length) if length else 0.0
