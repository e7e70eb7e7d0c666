"""Small biLMs that differ in one thing each, trained on the same tokens.

What is compared is perplexity and bits per character of held-out text against size and
speed. The same command resumes the runs: those that are complete are not made again,
and one of another recipe in the same folder ends the command with the difference.
"""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
import typer
from wasabi import msg

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.token_cache import TokenCache
from spacy_elmo.cli.group import markdown_table
from spacy_elmo.speed import encode_all, in_turn, read_sentences

Settings = dict[str, Any]

MORE_FILTERS = [[1, 64], [2, 64], [3, 128], [4, 256], [5, 256], [6, 256]]
# What each changes of the configuration that it is compared with.
VARIANTS: dict[str, Settings] = {
    "base": {},
    "1,024 filters": {"model.filters": MORE_FILTERS},
    "projection 128": {"model.projection_dim": 128},
    "1024 units, projection 128": {
        "model.hidden_dim": 1024,
        "model.projection_dim": 128,
    },
    "two highways": {"model.n_highway": 2},
    "clips of 3": {"model.cell_clip": 3.0, "model.proj_clip": 3.0},
    "dropout 0.1": {"training.dropout": 0.1},
    "sampled softmax": {
        "training.objective": {
            "@objectives": "spacy-elmo.SampledSoftmax.v1",
            "samples": 2048,
        }
    },
    "learning rate 0.004": {"training.optimizer.learn_rate": 0.004},
}
# Those that need the text prepared in another way.
TEXTS: dict[str, list[str]] = {
    "vocabulary of 16,000": ["--vocab-size", "16000"],
    "lines not split into sentences": ["--no-sentences"],
}


def run(*command: object) -> None:
    subprocess.run([sys.executable, "-m", *map(str, command)], check=True)


def train(
    config: Path, folder: Path, settings: Settings, text: Path, steps: int
) -> None:
    options: Settings = {
        "text.train": [str(text)],
        "training.max_steps": steps,
        "training.eval_every": 1_000_000,
        **settings,
    }
    objective = options.pop("training.objective", None)
    flags = [x for k, v in options.items() for x in (f"--{k}", json.dumps(v))]
    if objective is not None:
        config = _with_objective(config, objective, folder)
    run("spacy", "elmo", "pretrain", config, "--output", folder, *flags)


def _with_objective(config: Path, objective: Settings, folder: Path) -> Path:
    """A copy of the configuration with another [training.objective]."""
    head, tail = config.read_text(encoding="utf-8").split("[training.objective]")
    after = tail[tail.index("\n[") :]
    block = "".join(
        f"{key} = {json.dumps(value)}\n" for key, value in objective.items()
    )
    written = folder.with_suffix(".cfg")
    written.parent.mkdir(parents=True, exist_ok=True)
    written.write_text(
        f"{head}[training.objective]\n{block}\n{after}", encoding="utf-8"
    )
    return written


def row(name: str, folder: Path, speed: float) -> tuple[str, ...]:
    card = json.loads((folder / "model-best" / "card.json").read_text(encoding="utf-8"))
    dev = card["dev_perplexity"]
    parameters = card["parameters"]
    return (
        name,
        f"{dev['mean']:.1f}",
        f"{dev['bits_per_character']:.3f}",
        f"{parameters / 1e6:.1f} M",
        f"{2 * parameters / 1e6:.1f} MB",
        f"{card['tokens_seen'] / card['seconds']:,.0f}",
        f"{speed:,.0f}",
    )


def speeds(folders: dict[str, Path], dev: Path, n_tokens: int) -> dict[str, float]:
    """Tokens/s of inference: batches of 64 as they come, one thread, cold cache."""
    torch.set_num_threads(1)
    sentences = read_sentences(dev, n_tokens)
    runs = {}
    for name, folder in folders.items():
        bilm = BiLM.load(folder / "model-best")
        bilm.token_cache = TokenCache(0)
        runs[name] = partial(encode_all, bilm, sentences, 64)
    return in_turn(runs, 3)


def main(
    config: Path = typer.Argument(..., help="Configuration they are compared with"),
    output: Path = typer.Argument(..., help="Folder for the runs and the table"),
    text: Path = typer.Option(..., help="Text file to train on"),
    prepared: Path = typer.Option(..., help="The same text, prepared"),
    dev: Path = typer.Option(..., help="Held-out text, prepared"),
    steps: int = typer.Option(500, help="Updates of 64 x 20 tokens"),
    table: bool = typer.Option(True, help="Measure speeds and write the table"),
) -> None:
    folders = {}
    for name, settings in VARIANTS.items():
        folders[name] = output / name.replace(" ", "_").replace(",", "")
        train(config, folders[name], settings, prepared, steps)
    for name, options in TEXTS.items():
        folders[name] = output / name.replace(" ", "_").replace(",", "")
        own = folders[name] / "text"
        # A tenth more than is read.
        most = ["--max-tokens", steps * 64 * 20 * 11 // 10]
        run("spacy", "elmo", "prepare", text, "--output", own, *options, *most)
        train(config, folders[name] / "run", {}, own, steps)
        folders[name] = folders[name] / "run"
    if table:
        found = speeds(folders, dev, 4000)
        body = [row(name, folder, found[name]) for name, folder in folders.items()]
        header = (
            "",
            "perplexity",
            "bits per character",
            "parameters",
            "16 bits",
            "training, tokens/s",
            "reading, tokens/s",
        )
        text_of = markdown_table([header, *body])
        (output / "table.md").write_text(text_of, encoding="utf-8")
        msg.table(body, header=header, divider=True)


if __name__ == "__main__":
    typer.run(main)
