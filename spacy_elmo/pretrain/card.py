"""The model card: where a model comes from, as `card.json` beside it."""

import platform
from pathlib import Path
from typing import Any

import torch

from ..bilm.files.format import folder_of
from ..bilm.files.own import CARD
from ..bilm.files.text_files import read_own_json
from ..bilm.kernels.processor import cpu_model
from ..errors import Errors


def read_card(folder: Path) -> dict[str, Any] | None:
    """Return the card of a model folder, None if it has none. Raises ValueError
    [EL002, EL003] if it can't be read."""
    path = folder_of(folder) / CARD
    if not path.exists():
        return None
    card = read_own_json(path)
    if not isinstance(card, dict):
        raise ValueError(Errors.EL003.format(path=path, problem="it is no card"))
    return card


def processor() -> str:
    """Return the processor's model and architecture, as far as the system tells."""
    model = cpu_model() or platform.processor()
    return " ".join(dict.fromkeys(filter(None, (model, platform.machine()))))


def describe(device: torch.device) -> str:
    """Return a device's name; a GPU's with its model and the most memory that was taken
    of it, in GiB."""
    if device.type != "cuda":
        return str(device)
    peak = torch.cuda.max_memory_allocated(device) / (1 << 30)
    return f"{device} ({torch.cuda.get_device_name(device)}, {peak:.1f} GiB taken)"
