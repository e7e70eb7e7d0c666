"""What a run leaves behind: the best model, the last one, their cards."""

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import torch
from wasabi import Printer

from .. import __version__
from ..atomic_files import recover, write_files, write_text
from ..bilm.files.own import CARD
from ..errors import Errors
from .card import hardware, read_card
from .checkpoint import FILE as CHECKPOINT
from .config import PretrainConfig
from .corpora import DEV, Corpora
from .model import LanguageModel
from .perplexity import Perplexity, perplexity

BEST, LAST = "model-best", "model-last"


class Results:
    """The models that a run saves, with their cards, and their perplexities."""

    def __init__(
        self,
        config: PretrainConfig,
        output: Path,
        command: str,
        corpora: Corpora,
        processes: int,
    ) -> None:
        self.config, self.output, self.command = config, output, command
        self.corpora, self.processes = corpora, processes
        self.best = math.inf
        self.before: dict[str, dict[str, float]] = {}
        # With the first step of each: a run may resume with other settings.
        self.commands: list[dict[str, Any]] = [{"step": 0, "command": command}]

    def to_dict(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        # JSON has no infinity.
        best = self.best if math.isfinite(self.best) else None
        return {"best": best, "before": self.before, "commands": self.commands}

    def restore(self, saved: dict[str, Any], step: int) -> None:
        """Take over what `to_dict` returned, at the step of the checkpoint."""
        self.commands = saved.get("commands", [])
        if not self.commands or self.commands[-1]["command"] != self.command:
            self.commands.append({"step": step, "command": self.command})
        self.best = math.inf if saved["best"] is None else saved["best"]
        self.before = saved["before"]

    def measure_before(self, model: LanguageModel) -> str:
        """Measure all held-out text before the training; return the perplexities
        formatted for the log."""
        held_out = {DEV: self.corpora.dev, **self.corpora.also}
        self.before = {
            name: perplexity(model, text).to_dict() for name, text in held_out.items()
        }
        return ", ".join(
            f"{name} {_show(found)}" for name, found in self.before.items()
        )

    def evaluated(
        self, model: LanguageModel, found: Perplexity, tokens: int, seconds: float
    ) -> None:
        """Save a model as the last one, and as the best one if its dev perplexity is
        the lowest, with the tokens and seconds that it was trained for."""
        config, train = self.config, self.corpora.train
        card = {
            "spacy_elmo": __version__,
            "fingerprint": None,  # filled in by what writes the weights
            "parameters": model.bilm.n_parameters,
            "text": {
                "note": config.text.note,
                "licence": config.text.licence,
                "files": config.text.train,
                "tokens": train.n_tokens,
                "coverage": train.coverage,
            },
            "vocabulary": len(train.vocab),
            "tokens_seen": tokens,
            "dev_files": config.text.dev,
            "dev_perplexity": found.to_dict(),
            "dev_perplexity_before": self.before.get(DEV),
            "seconds": round(seconds, 1),
            "hardware": hardware(model.bilm.device, self.processes),
            "command": self.command,
            "commands": self.commands,
            "config": config.to_dict(),
        }
        folders = [LAST]
        if found.mean < self.best:
            self.best = found.mean
            folders.append(BEST)
        for folder in folders:
            model.bilm.save(
                self.output / folder,
                dtype=config.training.save_dtype,
                softmax=model.softmax,
                card=card,
            )

    def finish(self, msg: Printer, device: torch.device) -> None:
        """Measure the best model on the further held-out text, add that to its card,
        and show a table of perplexities before and after. Raises ValueError [EL046] if
        the best model was removed."""
        card = read_card(self.output / BEST)
        if card is None:
            path, error = self.output / BEST, "it was removed"
            raise ValueError(Errors.EL046.format(path=path, error=error))
        also = self.corpora.also
        if also and "also" not in card:
            model = LanguageModel.load(self.output / BEST).to(device)
            card["also"] = {
                name: {
                    "before": self.before.get(name),
                    "after": perplexity(model, text).to_dict(),
                }
                for name, text in also.items()
            }
            text = json.dumps(card, indent=2, ensure_ascii=False)
            write_files(self.output / BEST, {CARD: partial(write_text, text)})
        after = {DEV: card["dev_perplexity"]}
        after |= {name: found["after"] for name, found in card.get("also", {}).items()}
        rows = [
            (name, _show(self.before.get(name)), _show(found))
            for name, found in after.items()
        ]
        if self.before or also:
            header = ("perplexity of", "before", "after")
            msg.table(rows, header=header, divider=True, aligns=("l", "r", "r"))


def _show(found: dict[str, float] | None) -> str:
    return "" if found is None else f"{found['mean']:.2f}"


def check_output(output: Path, init: str | None) -> None:
    """Raise ValueError [EL037] if a run would write over the model it starts from."""
    for name in (BEST, LAST):
        if init is not None and (output / name).resolve() == Path(init).resolve():
            problem = (
                f"the run would overwrite its init, {init!r}; choose another output"
            )
            raise ValueError(Errors.EL037.format(path="training", problem=problem))


def prepare_output(output: Path, *, overwrite: bool) -> None:
    """Make a run's folder, and remove what a killed process left unfinished in it."""
    output.mkdir(parents=True, exist_ok=True)
    for folder in (output, output / BEST, output / LAST):
        recover(folder)
    if overwrite:
        (output / CHECKPOINT).unlink(missing_ok=True)
