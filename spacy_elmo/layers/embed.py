"""[x_k; ELMo_k]: ELMo beside the task's own token vectors (paper, section 3.3)."""

from spacy.tokens import Doc
from spacy.util import registry
from thinc.api import Maxout, Model, chain, concatenate, with_array
from thinc.types import Floats2d

TokenVectors = Model[list[Doc], list[Floats2d]]


@registry.architectures("spacy-elmo.Embed.v1")
def build_embed(embed: TokenVectors, elmo: TokenVectors, width: int) -> TokenVectors:
    """Return vectors of the task's own and of ELMo, side by side, and one layer down to
    the width of the encoder above.

    Args:
        embed: The task's own, `spacy.MultiHashEmbed.v2` for instance.
        elmo: `spacy-elmo.ElmoListener.v1`.
        width: Of the vectors that come out, (T, width) for each Doc.
    """
    both: TokenVectors = concatenate(embed, elmo)
    project = Maxout(nO=width, nP=3, dropout=0.0, normalize=True)
    model: TokenVectors = chain(both, with_array(project))
    model.set_dim("nO", width)
    return model
