"""Where a run's figures go: a progress bar, log.jsonl, TensorBoard, spaCy's loggers,
and from the log into a plot."""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from confection import Config
from tqdm import tqdm

from ..errors import Errors
from ..files import named_path, new_figure, save_figure, write_files
from .start import Run

FILE = "log.jsonl"
FEW = 20  # rows of a log that are shown as points too


class Log:
    """The log of a run. On entering, lines of steps that are made again are removed
    from the file.

    Args:
        run: The run, where it begins or goes on.

    Raises:
        ImportError: [EL049] TensorBoard is not installed.
    """

    def __init__(self, run: Run) -> None:
        training = run.config.training
        self.path = run.output / FILE
        self.tokens_per_step = training.batch_size * training.unroll_steps
        rows = [row for row in read_log(self.path) if row["step"] <= run.step]
        self._before = "".join(json.dumps(row) + "\n" for row in rows)
        self._writer: Any = None
        if training.tensorboard:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError as error:
                raise Errors.EL049(error=error) from error
            folder = str(run.output / "tensorboard")
            self._writer = SummaryWriter(folder, purge_step=run.step + 1)
        self._spacy: Callable[[Any], None] | None = None
        if logger := run.config.logger():
            nlp = _like_a_pipeline(run)
            self._spacy, self._finish = logger(nlp, sys.stdout, sys.stderr)
        self._shown: dict[str, str] = {}
        # Of the last row.
        self._last_tokens, self._last_time = run.tokens, 0.0
        self.bar = tqdm(
            total=run.n_steps * self.tokens_per_step,
            initial=run.tokens,
            unit=" tokens",
            unit_scale=True,
            # A file gets a line now and then.
            mininterval=0.5 if sys.stderr.isatty() else 30,
        )

    def skip(self, seconds: float) -> None:
        """Leave a time that has just passed out of the speed and the time left."""
        self._last_time += seconds
        if not self.bar.disable:
            self.bar.start_t += seconds
            self.bar.last_print_t += seconds

    def step(self) -> None:
        """Count a step."""
        self.bar.update(self.tokens_per_step)
        if self._spacy is not None:
            self._spacy(None)

    def speed(self, tokens: int) -> float:
        """Return the tokens per second since the last row."""
        seconds = max(time.time() - self._last_time, 1e-9)
        return (tokens - self._last_tokens) / seconds

    def row(self, row: dict[str, Any]) -> None:
        """Write a line of figures. One of an evaluation has `epoch`, too, and `dev`, a
        dictionary. Raises OSError [EL013] if it can't be written."""
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        except OSError as error:
            raise Errors.EL013(path=self.path, error=error) from error
        self._shown["loss"] = f"{row['loss']:.3f}"
        self._shown["lr"] = f"{row['learn_rate']:.2g}"
        if "dev" in row:
            self._shown["dev"] = f"{row['dev']['mean']:.2f}"
        self.bar.set_postfix(self._shown, refresh=False)
        if self._writer is not None:
            found = {f"dev/{name}": value for name, value in row.get("dev", {}).items()}
            found |= {name: row[name] for name in row if name not in ("step", "dev")}
            for name, value in found.items():
                self._writer.add_scalar(name, value, row["step"])
        if "dev" in row and self._spacy is not None:
            self._spacy(
                {
                    "epoch": row["epoch"],
                    "step": row["step"],
                    "score": -row["dev"]["mean"],  # higher is better there
                    "other_scores": {**row["dev"], "speed": row["tokens_per_second"]},
                    "losses": {"elmo": row["loss"]},
                    "checkpoints": [],
                    "seconds": row["seconds"],
                    "words": row["tokens"],
                }
            )
        self._last_tokens, self._last_time = row["tokens"], time.time()

    def say(self, text: str) -> None:
        """Print a line above the progress bar."""
        tqdm.write(text)

    def __enter__(self) -> "Log":
        write_files(self.path.parent, {FILE: self._before})
        self._last_time = time.time()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.close()
        if self._writer is not None:
            self._writer.close()
        if self._spacy is not None:
            self._finish()


# What a line that is no row of a log can raise.
_BAD_ROW = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)


def read_log(path: Path) -> list[dict[str, Any]]:
    """Return the complete lines of a log; none if there is no file. Raises ValueError
    [EL121] if it is not the log of a run."""
    if not path.is_file():
        return []
    rows = []
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            row = json.loads(line)
            dev = row.get("dev", {"mean": 0.0})
            sum((row["step"], row["tokens"], row["loss"], dev["mean"]))  # all numbers
        except _BAD_ROW as error:
            if line.endswith(b"\n") or not line.startswith(b"{"):
                raise Errors.EL121(path=path) from error
            break  # unfinished: the process was killed while it wrote this line
        rows.append(row)
    return rows


def draw_curve(runs: Sequence[Path], output: Path) -> None:
    """Plot training loss and dev perplexity of runs against tokens. The ending of the
    file says its format. Runs are labelled by the names of their folders, or by their
    paths where two names are the same.

    Raises:
        ValueError: [EL074] A run has no log, or the format is not known.
        ImportError: [EL075] matplotlib is not installed.
        OSError: [EL013] The file can't be written.
    """
    figure = new_figure(9, 3.6, output)
    from matplotlib.ticker import EngFormatter  # it is there, or new_figure says so

    loss_axes, dev_axes = figure.subplots(1, 2)
    folders = list(map(named_path, runs))
    # A link has a name of its own, which `Path.resolve` would lose.
    names = [Path(os.path.abspath(folder)).name for folder in folders]  # noqa: PTH100
    labels = names if len({*names}) == len(names) else list(map(str, folders))
    for number, (run, label) in enumerate(zip(folders, labels)):
        rows = [(row["tokens"], row) for row in read_log(run / FILE)]
        if not rows:
            problem = f"there is no '{FILE}' of a run in it"
            raise Errors.EL074(path=run, problem=problem)
        style: dict[str, Any] = {"color": f"C{number}", "label": label}
        dev = [(tokens, row["dev"]["mean"]) for tokens, row in rows if "dev" in row]
        few = {"marker": "."} if len(rows) < FEW else {}  # one point is no line
        losses = [row["loss"] for _, row in rows]
        loss_axes.plot([n for n, _ in rows], losses, **few, **style)
        dev_axes.plot([n for n, _ in dev], [p for _, p in dev], marker=".", **style)
    loss_axes.set(xlabel="tokens", ylabel="training loss (nats per word)")
    dev_axes.set(xlabel="tokens", ylabel="dev perplexity", yscale="log")
    for axes in (loss_axes, dev_axes):
        axes.grid(alpha=0.3)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))  # 120, 50k, 2M
    dev_axes.legend()
    save_figure(figure, output)


def _like_a_pipeline(run: Run) -> Any:
    """Return an object that spaCy's loggers take for a pipeline: it has a configuration
    and components."""
    sections = run.config.to_dict()
    sections["training"] |= {
        "max_steps": run.n_steps,
        "eval_frequency": run.config.training.eval_every,
        "score_weights": {"speed": 0.0},
    }
    elmo = SimpleNamespace(is_trainable=True)
    return SimpleNamespace(
        config=Config(sections), pipeline=[("elmo", elmo)], pipe_names=["elmo"]
    )
