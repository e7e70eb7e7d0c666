"""Training objectives: distributions over a vocabulary, with registered names."""

from .adaptive import AdaptiveSoftmax
from .full import FullSoftmax
from .objective import MakeObjective, Objective
from .sampled import SampledSoftmax
from .storage import (
    FILE,
    load,
    read_header,
    read_with_checksum,
    save,
    write_with_checksum,
)

__all__ = [
    "FILE", "AdaptiveSoftmax", "FullSoftmax", "MakeObjective", "Objective",
    "SampledSoftmax", "load", "read_header", "read_with_checksum", "save",
    "write_with_checksum",
]  # fmt: skip
