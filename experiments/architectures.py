"""Small biLMs that differ in one thing each, trained on the same tokens.

What is compared is perplexity and bits per character of held-out text against size and
speed. The same command resumes the runs: those that are complete are not made again,
and one of another recipe in the same folder ends the command with the difference.
"""

import json
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
import typer
from spacy.util import load_config
from wasabi import msg

from benchmarks.speed import encode_all, in_turn, read_sentences
from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.token_cache import TokenCache
from spacy_elmo.cli.group import markdown_table
from spacy_elmo.models import read_card
from spacy_elmo.pretrain import perplexity
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.text.shards import open_corpus

from .average import average

Settings = dict[str, Any]

BATCH = 64  # streams of the configuration that all are compared with
MORE_FILTERS = [[1, 64], [2, 64], [3, 128], [4, 256], [5, 256], [6, 256]]
MUON: Settings = {
    "@optimizers": "spacy-elmo.Muon.v1",
    "learn_rate": 0.004,
    "weight_decay": 0.0,
}
CLIPS: Settings = {"model.cell_clip": 3.0, "model.proj_clip": 3.0}
# Of the vocabulary of the prepared text, beside the char-CNN.
WORDS: Settings = {"model.n_words": 50_000}
# What each changes of the configuration that it is compared with.
VARIANTS: dict[str, Settings] = {
    "base": {},
    "1,024 filters": {"model.filters": MORE_FILTERS},
    "projection 128": {"model.projection_dim": 128},
    "1024 units, projection 128": {
        "model.hidden_dim": 1024,
        "model.projection_dim": 128,
    },
    "688 units, projection 192": {
        "model.hidden_dim": 688,
        "model.projection_dim": 192,
    },
    "two highways": {"model.n_highway": 2},
    "clips of 3": CLIPS,
    "dropout 0.1": {"training.dropout": 0.1},
    "sampled softmax": {
        "training.objective": {
            "@objectives": "spacy-elmo.SampledSoftmax.v1",
            "samples": 2048,
        }
    },
    "learning rate 0.004": {"training.optimizer.learn_rate": 0.004},
    "learning rate 0.004, clips of 3": {
        "training.optimizer.learn_rate": 0.004,
        **CLIPS,
    },
    "batch 128": {"training.batch_size": 128},
    "Muon": {"training.optimizer": MUON},
    "Muon, weight decay 0.1": {"training.optimizer": {**MUON, "weight_decay": 0.1}},
    "Muon, batch 128": {"training.optimizer": MUON, "training.batch_size": 128},
    "Muon, batch 512": {"training.optimizer": MUON, "training.batch_size": 512},
    "Muon, 1,024 filters": {"training.optimizer": MUON, "model.filters": MORE_FILTERS},
    "Muon, two highways": {"training.optimizer": MUON, "model.n_highway": 2},
    "Muon, table of words, 64 wide": {
        "training.optimizer": MUON,
        "model.word_dim": 64,
        **WORDS,
    },
    "Muon, table of words, 128 wide": {
        "training.optimizer": MUON,
        "model.word_dim": 128,
        **WORDS,
    },
}
# Those that need the text prepared in another way.
TEXTS: dict[str, list[str]] = {
    "vocabulary of 16,000": ["--vocab-size", "16000"],
    "lines not split into sentences": ["--no-sentences"],
}
# Those that read a part of the text several times: how many.
EPOCHS = {"a quarter of the text, four times": 4}
# Those whose weights are the mean of this many checkpoints of the run's last third, at
# a learning rate that does not fall (LAWA, Kaddour 2022).
AVERAGES = {"average of 6 checkpoints": 6}


def run(*command: object) -> None:
    subprocess.run([sys.executable, "-m", *map(str, command)], check=True)


def train(
    config: Path, folder: Path, settings: Settings, text: Path, dev: Path, steps: int
) -> None:
    """Train a variant on as many tokens as `steps` updates of the base read. One that
    was trained with another recipe ends the command."""
    options: Settings = {
        "text.train": [str(text)],
        "text.dev": [str(dev)],
        "training.max_steps": steps
        * BATCH
        // settings.get("training.batch_size", BATCH),
        "training.eval_every": 1_000_000,
        **settings,
    }
    blocks = {name: value for name, value in options.items() if isinstance(value, dict)}
    if blocks:
        config = _with_blocks(config, blocks, folder.with_name(f"{folder.name}.cfg"))
    flags = [
        part
        for name, value in options.items()
        if name not in blocks
        for part in (f"--{name}", json.dumps(value))
    ]
    run("spacy", "elmo", "pretrain", config, "--output", folder, *flags)


def _with_blocks(config: Path, blocks: dict[str, Settings], written: Path) -> Path:
    """Write the configuration with other sections in place of its own."""
    changed = load_config(config, interpolate=False)
    for name, block in blocks.items():
        section, key = name.split(".")
        changed[section][key] = block
    written.parent.mkdir(parents=True, exist_ok=True)
    changed.to_disk(written)
    return written


def train_and_average(
    config: Path,
    folder: Path,
    settings: Settings,
    n_checkpoints: int,
    text: Path,
    dev: Path,
    steps: int,
) -> None:
    """Train to each of the checkpoints in turn, keep it, and write the mean of their
    weights."""
    constant = {"@schedules": "spacy-elmo.Constant.v1", "warmup_steps": steps // 15}
    settings = {**settings, "training.schedule": constant}
    models = []
    for number in range(n_checkpoints):
        until = steps - (n_checkpoints - 1 - number) * steps // (3 * n_checkpoints)
        kept = folder / f"step-{until}"
        # The run can't return to one that is there, and would say if it is another's.
        if not kept.exists() or number == n_checkpoints - 1:
            train(config, folder / "run", settings, text, dev, until)
        if not kept.exists():
            copied = shutil.copytree(
                folder / "run" / "model-last", folder / "copy", dirs_exist_ok=True
            )
            copied.rename(kept)
        models.append(LanguageModel.load(kept))
    card = dict(read_card(folder / "run" / "model-last") or {})
    mean = average(models)
    corpus = open_corpus(dev).with_vocab(mean.bilm.vocab or [])
    corpus = corpus.first(load_config(config)["text"]["dev_max_tokens"])
    card["dev_perplexity"] = perplexity(mean, corpus).to_dict()
    mean.bilm.save(folder / "model-best", softmax=mean.softmax, card=card)


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
    precision: str = typer.Option("float32", help="Of the training"),
    rows: list[str] = typer.Option([], "--row", help="This row alone; several times"),
    table: bool = typer.Option(True, help="Measure speeds and write the table"),
) -> None:
    known = [*VARIANTS, *TEXTS, *EPOCHS, *AVERAGES]
    if unknown := set(rows) - set(known):
        msg.fail(f"no row {sorted(unknown)}; there are: {'; '.join(known)}", exits=1)
    folders = {}
    for name in rows or known:
        folder = output / name.replace(" ", "_").replace(",", "")
        settings: Settings = {"training.precision": precision}
        if name in TEXTS:
            # A tenth more than is read.
            most = ["--max-tokens", steps * BATCH * 20 * 11 // 10]
            own = folder / "text"
            run("spacy", "elmo", "prepare", text, "--output", own, *TEXTS[name], *most)
            folder = folder / "run"
            train(config, folder, settings, own, dev, steps)
        elif name in AVERAGES:
            train_and_average(
                config, folder, settings, AVERAGES[name], prepared, dev, steps
            )
        else:
            if name in EPOCHS:
                tokens = steps * BATCH * 20 // EPOCHS[name]
                settings |= {"text.max_tokens": tokens, "training.epochs": EPOCHS[name]}
            settings |= VARIANTS.get(name, {})
            train(config, folder, settings, prepared, dev, steps)
        folders[name] = folder
    if table:
        write_table(output, folders, speeds(folders, dev, 4000))


def write_table(
    output: Path, folders: dict[str, Path], speeds_of: dict[str, float]
) -> None:
    body = [row(name, folder, speeds_of[name]) for name, folder in folders.items()]
    header = (
        "",
        "perplexity",
        "bits per character",
        "parameters",
        "16 bits",
        "training, tokens/s",
        "reading, tokens/s",
    )
    (output / "table.md").write_text(markdown_table([header, *body]), encoding="utf-8")
    msg.table(body, header=header, divider=True)


if __name__ == "__main__":
    typer.run(main)
