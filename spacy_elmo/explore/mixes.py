"""The view of the mixes of layers that the components of a pipeline have learned."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from .page import View

if TYPE_CHECKING:
    from spacy.language import Language


def mix_view(nlp: "Language") -> View:
    """Return a view of the share of each layer and of gamma, for every listener of a
    pipeline (paper, equation 1 and figure 2).

    Raises:
        ValueError: [EL090] No component listens to an `elmo`. [EL053] A listener has no
            upstream component.
    """
    from ..pipeline import learned_mixes

    mixes = learned_mixes(nlp)
    name = f"{nlp.meta['lang']}_{nlp.meta['name']}"
    data = {"mixes": [asdict(mix) for mix in mixes]}
    return View("mix", "Layers that each component uses", name, data)
