"""The model card: where a model comes from, as `card.json` beside it."""

import platform
from pathlib import Path
from typing import Any

import torch

from .. import __version__
from ..bilm.files.own import CARD
from ..bilm.files.text_files import read_json


def read_card(folder: Path) -> dict[str, Any] | None:
    """Return the card of a model folder, None if it has none.

    Raises:
        ValueError: [EL002] It can't be read.
    """
    path = folder / CARD
    return dict(read_json(path)) if path.exists() else None


def make_card(
    *,
    parameters: int,
    text: dict[str, Any],
    vocabulary: int,
    results: dict[str, Any],
    seconds: float,
    device: torch.device,
    processes: int,
    commands: list[dict[str, Any]],
    config: dict[str, Any],
) -> dict[str, Any]:
    """Return a card; `results` are tokens seen and perplexities, `commands` each
    command of the run with its first step, `config` the settings of the last one."""
    return {
        "spacy_elmo": __version__,
        "fingerprint": None,  # filled in by what writes the weights
        "parameters": parameters,
        "text": text,
        "vocabulary": vocabulary,
        **results,
        "seconds": round(seconds, 1),
        "hardware": f"{processor()}, {processes} x {torch.get_num_threads()} "
        f"threads, {device}, torch {torch.__version__}",
        "command": commands[-1]["command"],
        "commands": commands,
        "config": config,
    }


def processor() -> str:
    """Return the processor's model and architecture, as far as the system tells."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        fields = (line.partition(":") for line in text.splitlines())
        model = next(v.strip() for k, _, v in fields if k.strip() == "model name")
    except (OSError, StopIteration):
        model = platform.processor()
    return " ".join(dict.fromkeys(filter(None, (model, platform.machine()))))
