"""The results of a run: the best model, the last one, their cards."""

import math
import platform
from collections.abc import Set
from pathlib import Path
from typing import Any

import torch

from .. import __version__
from ..bilm.weights import CARD, FILES, folder_of, read_config
from ..errors import Errors
from ..files import json_with_checksum, recover, write_files
from ..machine import cpu_model
from ..models import find, read_card, started_from
from ..output import Messages
from .config import TrainingConfig
from .corpora import DEV, TRAIN
from .evaluation import Perplexity, perplexity
from .model import LanguageModel
from .start import Run
from .workers import Workers

BEST, LAST = "model-best", "model-last"
Figures = dict[str, float]  # of a text, as `Perplexity.to_dict` gives them


class Results:
    """The models that a run saves, with their cards, and their perplexities; `command`
    is how the run was started."""

    def __init__(self, run: Run, command: str) -> None:
        self.run, self.command = run, _utf8(command)
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
        before = saved.get("commands", [])
        self.commands = [{**row, "command": _utf8(row["command"])} for row in before]
        if not self.commands or self.commands[-1]["command"] != self.command:
            self.commands.append({"step": step, "command": self.command})
        self.best = math.inf if saved["best"] is None else saved["best"]
        self.before = saved["before"]
        self.started_from = saved.get("started_from", self.started_from)

    def measure_before(self) -> str:
        """Measure all held-out text before the training. Return the perplexities as a
        text for the log."""
        held_out = self.run.corpora.keys() - {TRAIN}
        self.before = self._measure(self.run.model, held_out)
        return ", ".join(f"{name} {_show(it)}" for name, it in self.before.items())

    def _measure(self, model: LanguageModel, names: Set[str]) -> dict[str, Figures]:
        named = {n: text for n, text in self.run.corpora.items() if n in names}
        return {n: perplexity(model, text).to_dict() for n, text in named.items()}

    def evaluated(self, found: Perplexity, tokens: int, seconds: float) -> None:
        """Save the model as the last one, and as the best one if its dev perplexity is
        the lowest, with the tokens and seconds that it was trained for."""
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
            "dev_perplexity": found.to_dict(),
            "dev_perplexity_before": self.before.get(DEV),
            "seconds": round(seconds, 1),
            "started_from": self.started_from,
            "hardware": self._hardware(),
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
                self.run.output / folder,
                dtype=config.training.save_dtype,
                softmax=model.softmax,
                card=_utf8(card),
            )

    def _hardware(self) -> str:
        threads = f"{self.run.workers.size} x {torch.get_num_threads()} threads"
        device = describe_device(self.run.workers.device)
        return f"{processor()}, {threads}, {device}, torch {torch.__version__}"

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


def processor() -> str:
    """Return the processor's model and architecture, as far as the system tells."""
    model = cpu_model() or platform.processor()
    return " ".join(dict.fromkeys(filter(None, (model, platform.machine()))))


def describe_device(device: torch.device) -> str:
    """Return the name of a device; of a GPU with its model and its peak of memory."""
    if device.type != "cuda":
        return str(device)
    peak = torch.cuda.max_memory_allocated(device) / (1 << 30)
    return f"{device} ({torch.cuda.get_device_name(device)}, {peak:.1f} GiB taken)"


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


def remove_models(output: Path) -> None:
    """Remove the models of a run that is overwritten, and nothing else."""
    for folder in (output / BEST, output / LAST):
        for name in FILES:
            (folder / name).unlink(missing_ok=True)


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
