"""The results of a run: the best model, the last one, their cards."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from .. import __version__
from ..bilm.weights import CARD
from ..errors import Errors
from ..files import json_with_checksum, write_files
from ..machine import describe_cpu
from ..models import read_card
from ..output import Messages
from .corpora import DEV, TRAIN
from .evaluation import perplexity
from .model import LanguageModel
from .start import Figures, Run

BEST, LAST = "model-best", "model-last"


def measure(model: LanguageModel, run: Run, names: list[str]) -> dict[str, Figures]:
    """Return a model's perplexities of some texts of a run."""
    return {n: perplexity(model, run.corpora[n]).to_dict() for n in names}


def save_models(run: Run, dev: Figures, folders: Sequence[str] = (LAST,)) -> None:
    """Save the model with its card into folders, and as the best one if its dev
    perplexity is the lowest.

    Args:
        run: The run.
        dev: The model's perplexities of the dev text.
        folders: Names of the folders.
    """
    config, model, results = run.config, run.model, run.results
    if dev["mean"] < (math.inf if results.best is None else results.best):
        results.best = dev["mean"]
        folders = [*folders, BEST]
    train, workers = run.corpora[TRAIN], run.workers
    threads = f"{workers.size} x {torch.get_num_threads()} threads"
    device = describe_device(workers.device)
    card = {
        "spacy_elmo": __version__,
        "fingerprint": None,  # filled in when the weights are written
        "parameters": model.bilm.n_parameters,
        "text": {
            "note": config.text.note,
            "licence": config.text.licence,
            "files": config.text.train,
            "tokens": train.n_tokens,
            "coverage": train.coverage,
        },
        "vocabulary": len(train.vocab),
        "tokens_seen": run.tokens,
        "dev_files": config.text.dev,
        "dev_perplexity": dev,
        "dev_perplexity_before": results.before.get(DEV),
        "seconds": round(run.seconds, 1),
        "started_from": results.started_from,
        "hardware": f"{describe_cpu()}, {threads}, {device}, torch {torch.__version__}",
        "command": results.commands[-1]["command"],
        "commands": results.commands,
        "config": config.to_dict(),
    }
    for folder in folders:
        model.bilm.save(
            run.output / folder,
            dtype=config.training.save_dtype,
            softmax=model.softmax,
            card=_utf8(card),
        )


def finish(run: Run, msg: Messages) -> None:
    """Measure the best model on the further held-out text, add that to its card, and
    show a table of perplexities before and after. Raises ValueError [EL046] if the best
    model was removed."""
    best, before = run.output / BEST, run.results.before
    also = [name for name in run.corpora if name not in (TRAIN, DEV)]
    card = read_card(best)
    if card is None:
        raise Errors.EL046(path=best, error="it was removed")
    if also and "also" not in card:
        model = LanguageModel.load(best).to(run.workers.device)
        found = measure(model, run, also).items()
        card["also"] = {n: {"before": before.get(n), "after": f} for n, f in found}
        write_files(best, {CARD: json_with_checksum(card)})
    after = {DEV: card["dev_perplexity"]}
    after |= {name: found["after"] for name, found in card.get("also", {}).items()}
    if before or also:
        rows = [(n, show(before.get(n)), show(after[n])) for n in after]
        header = ("perplexity of", "before", "after")
        msg.table(rows, header=header, divider=True, aligns=("l", "r", "r"))


def describe_device(device: torch.device) -> str:
    """Return the name of a device; of a GPU with its model and its peak of memory."""
    if device.type != "cuda":
        return str(device)
    peak = torch.cuda.max_memory_allocated(device) / (1 << 30)
    return f"{device} ({torch.cuda.get_device_name(device)}, {peak:.1f} GiB taken)"


def verdict(best: Path) -> str:
    """Return one line on the best model of a finished run: where it is, and whether it
    is better than the one that the training began with, if that was measured."""
    card = read_card(best) or {}
    where, before = f"The best model is in {best}", card.get("dev_perplexity_before")
    if before is None:
        return where
    if card["dev_perplexity"]["mean"] < before["mean"]:
        found = show(card["dev_perplexity"])
        return f"{where}: dev perplexity {found}, better than {show(before)} before"
    return (
        f"{where}: it is the one before the training, dev perplexity {show(before)}, "
        "since training made it no better"
    )


def _utf8(value: Any) -> Any:
    """Return the content of a card in characters that UTF-8 has. Names of files may
    have others."""
    if isinstance(value, dict):
        return {key: _utf8(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_utf8(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    return value


def show(found: Figures | None) -> str:
    """Return the perplexity of a text as people read it."""
    return "" if found is None else f"{found['mean']:.2f}"
