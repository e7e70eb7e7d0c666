"""Training objectives: output distributions over a vocabulary, by registered name."""

from .adaptive import AdaptiveSoftmax
from .full import FullSoftmax
from .objective import MakeObjective, Objective
from .sampled import SampledSoftmax
from .storage import FILE, load, read_header, read_signed, save, write_signed

__all__ = [
    "FILE", "AdaptiveSoftmax", "FullSoftmax", "MakeObjective", "Objective",
    "SampledSoftmax", "load", "read_header", "read_signed", "save", "write_signed",
]  # fmt: skip
