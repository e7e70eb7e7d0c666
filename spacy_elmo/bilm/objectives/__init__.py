"""Training objectives: distributions over a vocabulary, with registered names."""

from .adaptive import AdaptiveSoftmax
from .full import FullSoftmax
from .objective import FILE, MakeObjective, Objective, in_chunks, load, save
from .sampled import SampledSoftmax

__all__ = [
    "FILE", "AdaptiveSoftmax", "FullSoftmax", "MakeObjective", "Objective",
    "SampledSoftmax", "in_chunks", "load", "save",
]  # fmt: skip
