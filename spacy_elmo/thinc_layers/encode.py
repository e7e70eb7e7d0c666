"""[h_k; ELMo_k]: ELMo again where the task's encoder ends (paper, section 3.3)."""

from typing import Literal, get_args

from spacy.tokens import Doc
from spacy.util import registry
from thinc.api import Model, chain, concatenate
from thinc.types import Floats2d

from ..errors import Errors
from .embed import TokenVectors, build_embed

Where = Literal["input", "output", "both"]


@registry.architectures("spacy-elmo.Encode.v1")
def build_encode(
    embed: TokenVectors,
    encode: Model[list[Floats2d], list[Floats2d]],
    elmo: TokenVectors,
    width: int,
    at: Where = "both",
) -> Model[list[Doc], list[Floats2d]]:
    """A whole tok2vec: the task's own vectors x_k and its encoder, with ELMo at the
    input, [x_k; ELMo_k], at the output, [h_k; ELMo_k], or at both, each with a mix of
    its own.

    embed: the task's own vectors, as in `spacy-elmo.Embed.v1`; of that width where ELMo
        is at the output alone.
    encode: `spacy.MaxoutWindowEncoder.v2`, `spacy.TorchBiLSTMEncoder.v1` (the paper's)
        or any other that keeps the width.
    elmo: `spacy-elmo.ElmoListener.v1`; the one at the output is a copy of it (and
        `nlp.replace_listeners` is to be given its path twice).
    width: of what the encoder reads. What comes out is as wide as the encoder's output,
        and where ELMo is at the output wider by ELMo's width.
    Raises ValueError [EL089].
    """
    if at not in get_args(Where):
        raise ValueError(Errors.EL089.format(found=at))
    bottom = embed if at == "output" else build_embed(embed, elmo, width)
    tok2vec: TokenVectors = chain(bottom, encode)
    if encode.has_dim("nO"):
        tok2vec.set_dim("nO", encode.get_dim("nO"))
    if at == "input":
        return tok2vec
    return concatenate(tok2vec, elmo if at == "output" else elmo.copy())
