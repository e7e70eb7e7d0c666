"""The output distributions a biLM can be trained with."""

from collections.abc import Callable

from ..bilm.objectives.sampled import SampledSoftmax
from ..bilm.objectives.softmax import (
    AdaptiveSoftmax,
    FullSoftmax,
    Softmax,
    make_softmax,
)
from ..registry import registry

# Width of what it reads, and number of words -> softmax.
Objective = Callable[[int, int], Softmax]


@registry.objectives("spacy-elmo.FullSoftmax.v1")
def full_softmax() -> Objective:
    """Exact, and linear in the vocabulary."""
    return FullSoftmax


@registry.objectives("spacy-elmo.AdaptiveSoftmax.v1")
def adaptive_softmax(cutoffs: list[int]) -> Objective:
    """Exact, in clusters of ever narrower vectors. cutoffs: first word of each cluster
    after the head; those beyond the vocabulary are left out."""
    return lambda width, n_words: make_softmax(width, n_words, cutoffs)


@registry.objectives("spacy-elmo.SampledSoftmax.v1")
def sampled_softmax(samples: int = 8192) -> Objective:
    """An estimate of the full one that costs the same for any vocabulary, as the
    published models were trained. samples: words drawn for a step."""
    if samples < 1:
        raise ValueError(f"samples must be at least 1, found {samples}")
    return lambda width, n_words: SampledSoftmax(width, n_words, samples)


def name_of(softmax: Softmax) -> str:
    """As it is said to the user."""
    if isinstance(softmax, SampledSoftmax):
        return f"sampled softmax, {softmax.n_samples:,} samples"
    if isinstance(softmax, AdaptiveSoftmax):
        clusters = ", ".join(f"{c:,}" for c in softmax.clusters.cutoffs[:-1])
        return f"adaptive softmax, cut at {clusters}"
    return "full softmax"
