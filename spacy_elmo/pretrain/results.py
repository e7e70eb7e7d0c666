"""The results of a run: the best model, the last one, their cards."""

import math
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any

import torch

from .. import __version__
from ..bilm.weights import CARD, folder_of, read_config
from ..errors import Errors
from ..files import json_with_checksum, recover, write_files
from ..machine import describe_cpu
from ..models import find, read_card, started_from
from ..output import Messages
from .config import TrainingConfig
from .corpora import DEV, TRAIN
from .evaluation import perplexity
from .model import LanguageModel
from .start import Run
from .workers import Workers

BEST, LAST = "model-best", "model-last"
Figures = dict[str, float]  # of a text, as `Perplexity.to_dict` gives them


class Results:
    """The models that a run saves, with their cards, and their perplexities; `command`
    is how the run was started."""

    def __init__(self, run: Run, command: str) -> None:
        self.run, self.command = run, command
        init = run.config.training.init_path
        self.started_from = None if init is None else started_from(init)
        self.best = math.inf
        self.before: dict[str, Figures] = {}
        # With the first step of each: a run may resume with other settings.
        self.commands: list[dict[str, Any]] = [{"step": 0, "command": self.command}]

    def to_dict(self) -> dict[str, Any]:
        """Return the entries for the checkpoint."""
        best = None if math.isinf(self.best) else self.best  # as JSON has no infinity
        kept = {"commands": self.commands, "started_from": self.started_from}
        return {"best": best, "before": self.before, **kept}

    def restore(self, saved: dict[str, Any], step: int) -> None:
        """Restore the entries of `to_dict`, at the step of the checkpoint."""
        self.commands = saved.get("commands", [])
        if not self.commands or self.commands[-1]["command"] != self.command:
            self.commands.append({"step": step, "command": self.command})
        self.best = math.inf if saved["best"] is None else saved["best"]
        self.before = saved["before"]
        self.started_from = saved.get("started_from", self.started_from)

    def measure_before(self, tokens: int, seconds: float) -> str:
        """Measure all held-out text before the training. Return the perplexities as a
        text for the log. The model is the first candidate for the best one."""
        held_out = self.run.corpora.keys() - {TRAIN}
        self.before = self._measure(self.run.model, held_out)
        self.save(self.before[DEV], tokens, seconds, folders=[])
        return ", ".join(f"{name} {_show(it)}" for name, it in self.before.items())

    def _measure(self, model: LanguageModel, names: Set[str]) -> dict[str, Figures]:
        return {
            name: perplexity(model, text).to_dict()
            for name, text in self.run.corpora.items()
            if name in names
        }

    def save(
        self,
        found: Figures,
        tokens: int,
        seconds: float,
        folders: Sequence[str] = (LAST,),
    ) -> None:
        """Save the model with its card into folders, and as the best one if its dev
        perplexity is the lowest.

        Args:
            found: Its perplexities of the dev text.
            tokens: Tokens that it was trained on.
            seconds: Time that it was trained for.
            folders: Names of the folders.
        """
        if found["mean"] < self.best:
            self.best = found["mean"]
            folders = [*folders, BEST]
        config, model = self.run.config, self.run.model
        train = self.run.corpora[TRAIN]
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
            "tokens_seen": tokens,
            "dev_files": config.text.dev,
            "dev_perplexity": found,
            "dev_perplexity_before": self.before.get(DEV),
            "seconds": round(seconds, 1),
            "started_from": self.started_from,
            "hardware": self._hardware(),
            "command": self.command,
            "commands": self.commands,
            "config": config.to_dict(),
        }
        for folder in folders:
            model.bilm.save(
                self.run.output / folder,
                dtype=config.training.save_dtype,
                softmax=model.softmax,
                card=_utf8(card),
            )

    def _hardware(self) -> str:
        threads = f"{self.run.workers.size} x {torch.get_num_threads()} threads"
        device = describe_device(self.run.workers.device)
        return f"{describe_cpu()}, {threads}, {device}, torch {torch.__version__}"

    def finish(self, msg: Messages) -> None:
        """Measure the best model on the further held-out text, add that to its card,
        and show a table of perplexities before and after. Raises ValueError [EL046] if
        the best model was removed."""
        best, also = self.run.output / BEST, self.run.corpora.keys() - {TRAIN, DEV}
        card = read_card(best)
        if card is None:
            raise Errors.EL046(path=best, error="it was removed")
        if also and "also" not in card:
            model = LanguageModel.load(best).to(self.run.workers.device)
            card["also"] = {
                name: {"before": self.before.get(name), "after": found}
                for name, found in self._measure(model, also).items()
            }
            write_files(best, {CARD: json_with_checksum(card)})
        after = {DEV: card["dev_perplexity"]}
        after |= {name: found["after"] for name, found in card.get("also", {}).items()}
        if self.before or also:
            rows = [(n, _show(self.before.get(n)), _show(after[n])) for n in after]
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
        found = _show(card["dev_perplexity"])
        return f"{where}: dev perplexity {found}, better than {_show(before)} before"
    return (
        f"{where}: it is the one before the training, dev perplexity {_show(before)}, "
        "since training made it no better"
    )


def _utf8(value: Any) -> Any:
    """Return the content of a card as UTF-8: names of files may be anything else."""
    if isinstance(value, dict):
        return {key: _utf8(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_utf8(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    return value


def _show(found: Figures | None) -> str:
    return "" if found is None else f"{found['mean']:.2f}"


def refuse_models(output: Path) -> None:
    """Raise ValueError [EL047] if the folders of models have files. It is called where
    there is no checkpoint, so these belong to no known run."""
    for folder in (output / BEST, output / LAST):
        if folder.is_dir() and any(folder.iterdir()):
            differs = f"there is a '{folder.name}', and no checkpoint"
            raise Errors.EL047(path=output, differs=differs)


def prepare_output(output: Path, training: TrainingConfig, workers: Workers) -> None:
    """Create the folder of a run, and remove the unfinished files of a killed process.

    Raises:
        ValueError: [EL037] The run would overwrite the model that it starts from. Also
            as `weights.read_config` of that model, before any text is read.
    """
    folders, init = (output, output / BEST, output / LAST), training.init_path
    start = None if init is None else folder_of(init).resolve()
    if start in [folder.resolve() for folder in folders[1:]]:
        named = training.init
        problem = f"the run would overwrite its init, {named!r}; choose another output"
        raise Errors.EL037(path="training", problem=problem)
    if init is not None:
        read_config(find(init))
    if workers.is_first:
        for folder in folders:
            recover(folder)
    workers.wait()
