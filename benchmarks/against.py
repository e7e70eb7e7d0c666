"""Compare this tree with another git revision of it: vectors, losses, files, speed.

    python -m benchmarks.against REVISION --output against.json

The other revision is checked out into a temporary folder, and both run in processes of
their own by the same Python, with the same dependencies.
"""

import json
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer
from tqdm import tqdm

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.kernels import check_training_precision
from spacy_elmo.files import sha256
from spacy_elmo.models import find
from spacy_elmo.text.corpus import SPECIALS

from .revisions import ROOT, Tree, check_out
from .speed import Sentences, made_up_sentences, made_up_words, show

PARTS = ("vectors", "losses", "files", "reading", "training")
OBJECTIVES: dict[str, dict[str, Any]] = {
    "full": {"@objectives": "spacy-elmo.FullSoftmax.v1"},
    "adaptive": {"@objectives": "spacy-elmo.AdaptiveSoftmax.v1", "cutoffs": [100, 400]},
    "sampled": {"@objectives": "spacy-elmo.SampledSoftmax.v1", "samples": 128},
}
# Sentences that are rare in text: of no token, of long, odd and foreign words.
ODD = [
    [],
    ["."],
    ["고양이", "가", "잔다", "."],
    ["x" * 60, "🙂" * 20],
    ["\udcff", " ", ""],
]
SIZES = {"hidden_dim": 256, "projection_dim": 64, "filters": [[1, 32], [3, 96]]}

Row = dict[str, Any]


def compare_vectors(trees: list[Tree], sentences: Sentences) -> list[Row]:
    """Compare the layers of the models that ship, of those of tests/gold that both
    revisions have, and of a random one of the small published size."""
    gold = [tree.source / "tests" / "gold" for tree in trees]
    shared = set.intersection(*({path.name for path in g.glob("*/")} for g in gold))
    in_gold = [str(gold[0] / name) for name in sorted(shared)]
    names = ["en_elmo_sm", "ko_elmo_sm", *in_gold, "random"]
    found = []
    for tree in trees:
        text = tree.folder / "sentences.json"
        text.write_text(json.dumps(sentences), encoding="utf-8")
        tree.run(tree.probe, "vectors", text, "vectors.npz", *names)
        found.append(np.load(tree.folder / "vectors.npz"))
    return [
        {"what": f"vectors, {Path(name).name}", "result": difference(a[name], b[name])}
        for a, b in [found]
        for name in names
    ]


def difference(ours: np.ndarray, theirs: np.ndarray) -> str:
    if ours.tobytes() == theirs.tobytes():
        return "same bits"
    if ours.shape != theirs.shape:
        return f"other shapes: {ours.shape} and {theirs.shape}"
    largest = abs(ours - theirs).max() / max(abs(theirs).max(), 1e-30)
    return f"differ by {largest:.1e} of the largest value"


def write_config(
    folder: Path, sentences: Sentences, training: Row, model: Row | None
) -> Path:
    """Write a text and a configuration to train on it, a new model or an init."""
    lines = [" ".join(sentence) for sentence in sentences]
    (folder / "train.txt").write_text("\n".join(lines), encoding="utf-8")
    (folder / "dev.txt").write_text("\n".join(lines[:20]), encoding="utf-8")
    sections: dict[str, Row] = {
        "text": {
            "train": ["train.txt"],
            "dev": ["dev.txt"],
            "tokenizer": "whitespace",
            "sentences": False,
        },
        **({} if model is None else {"vocab": {"size": 2000}, "model": model}),
        "training": {"threads": 1, "device": "cpu", "epochs": 1000, **training},
        "training.optimizer": {"@optimizers": "spacy-elmo.Adam.v1"},
    }
    objective = sections["training"].pop("objective", None)
    if objective:
        sections["training.objective"] = objective
    text = ""
    for name, settings in sections.items():
        values = (f"{key} = {json.dumps(value)}" for key, value in settings.items())
        text += "\n".join([f"[{name}]", *values, "\n"])
    path = folder / "run.cfg"
    path.write_text(text, encoding="utf-8")
    return path


def train(
    tree: Tree, sentences: Sentences, training: Row, model: Row | None
) -> list[Row]:
    """Train. Returns the lines of the log."""
    config = write_config(tree.folder, sentences, training, model)
    arguments = [config, "--output", "run", "--overwrite"]
    tree.run("-m", "spacy_elmo.pretrain", *arguments)
    log = (tree.folder / "run" / "log.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in log.splitlines()]


def compare_losses(trees: list[Tree], sentences: Sentences, steps: int) -> list[Row]:
    """Compare the losses of the first steps of each objective, and the weights and the
    softmax after them."""
    rows = []
    for name, objective in OBJECTIVES.items():
        training = {"objective": objective, "max_steps": steps, "log_every": 1}
        training |= {"batch_size": 8, "dropout": 0.1}
        logs = [train(tree, sentences, training, SIZES) for tree in trees]
        ours, theirs = (np.array([row["loss"] for row in log]) for log in logs)
        result = f"{len(ours)} losses: {difference(ours, theirs)}"
        last = [tree.folder / "run" / "model-last" for tree in trees]
        files = (sha256(folder / "weights.safetensors") for folder in last)
        same = "same" if len(set(files)) == 1 else "other"
        rows.append(
            {"what": f"training, {name}", "result": f"{result}; {same} weights"}
        )
    return rows


def compare_files(trees: list[Tree], sentences: Sentences) -> list[Row]:
    """Compare the files that are written: models, exported ones, prepared text."""
    hashes = []
    for tree in trees:
        write_config(tree.folder, sentences, {}, SIZES)
        tree.run(tree.probe, "save", "en_elmo_sm", "files/own")
        tree.run(tree.probe, "save", "random", "random")
        spacy = ["-m", "spacy", "elmo"]
        tree.run(*spacy, "convert", "random", "files/bilm_tf", "--to", "bilm-tf")
        tree.run(*spacy, "convert", "en_elmo_sm", "files/half", "--half")
        tree.run(*spacy, "prepare", "train.txt", "--output", "files/prepared")
        folder = tree.folder / "files"
        found = {
            str(path.relative_to(folder)): sha256(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        info = json.loads(tree.run(*spacy, "info", "files/own", "--json"))
        hashes.append({**found, "fingerprint": info["fingerprint"]})
    ours, theirs = hashes
    names = sorted({*ours, *theirs})
    other = [name for name in names if ours.get(name) != theirs.get(name)]
    result = f"{len(names) - len(other)} of {len(names)} are the same"
    return [{"what": "files", "result": "; other: ".join([result, *other])}]


Times = dict[str, list[list[float]]]  # seconds of this tree and of the other, in turn


def compare_reading(trees: list[Tree], sentences: Sentences, rounds: int) -> Times:
    """Return the seconds that reading takes, of sentences together and one by one."""
    times: Times = {}
    for model in ("en_elmo_sm", "random"):
        with ExitStack() as stack:
            readers = []
            for tree in trees:
                text = tree.folder / "sentences.json"
                text.write_text(json.dumps(sentences), encoding="utf-8")
                readers.append(stack.enter_context(tree.reader(text, model)))
            for what in ("batches", "single"):
                name = f"reading, {model}, {what}"
                for number in tqdm(range(rounds + 1), name, leave=False):
                    seconds = [ask(reader, what) for reader in readers]
                    if number:  # the first warms up
                        times.setdefault(name, []).append(seconds)
    return times


def compare_training(
    trees: list[Tree], sentences: Sentences, rounds: int, steps: int
) -> Times:
    """Return the seconds that training takes, the median of its steps."""
    times: Times = {}
    for name, training, model, text in trainings(sentences):
        training |= {"max_steps": steps, "log_every": 1, "eval_every": 1_000_000}
        for _ in tqdm(range(rounds), f"training, {name}", leave=False):
            seconds = [
                1000
                * statistics.median(1 / row["tokens_per_second"] for row in log[1:])
                for log in (train(tree, text, training, model) for tree in trees)
            ]
            times.setdefault(f"training, {name}, 1,000 tokens", []).append(seconds)
    return times


def ratios(times: Times) -> list[Row]:
    """Return medians, and the median of the ratios of neighbours (below 1: this tree is
    faster)."""
    return [
        {
            "what": name,
            "this, seconds": statistics.median(ours for ours, _ in pairs),
            "other, seconds": statistics.median(theirs for _, theirs in pairs),
            "ratio": statistics.median(ours / theirs for ours, theirs in pairs),
        }
        for name, pairs in times.items()
    ]


def trainings(
    sentences: Sentences,
) -> Iterator[tuple[str, Row, Row | None, Sentences]]:
    """Yield what is trained: a name, settings, the sizes of a new model, and a text.
    The model that ships reads words of its vocabulary, as frequent as in English."""
    for name in ("adaptive", "sampled"):
        yield name, {"objective": OBJECTIVES[name], "batch_size": 32}, {}, sentences
    vocab = BiLM.load(find("en_elmo_sm")).vocab or []
    text = made_up_sentences(vocab[len(SPECIALS) :], 20_000)
    for precision in ("float32", "bfloat16"):
        if _trains_in(precision):
            training = {"init": "en_elmo_sm", "batch_size": 64, "precision": precision}
            yield f"en_elmo_sm, {precision}", training, None, text


def _trains_in(precision: str) -> bool:
    try:
        check_training_precision(precision, torch.device("cpu"))
    except ValueError:
        return False
    return True


def ask(reader: subprocess.Popen[str], what: str) -> float:
    assert reader.stdin is not None and reader.stdout is not None
    reader.stdin.write(f"{what}\n")
    reader.stdin.flush()
    return float(reader.stdout.readline())


def main(
    revision: str = typer.Argument(..., help="Commit, tag or branch to compare with"),
    part: list[str] = typer.Option(list(PARTS), help="What to compare"),
    steps: int = typer.Option(50, help="Losses of each objective"),
    rounds: int = typer.Option(5, help="Times that each speed is measured, in turn"),
    training_steps: int = typer.Option(15, help="Updates of a measured training"),
    output: Path | None = typer.Option(None, "--output", "-o", help="JSON file"),
) -> None:
    """Compare this tree with another revision of it."""
    sentences = [*ODD, *made_up_sentences(made_up_words(5_000), 10_000)]
    words = sentences[len(ODD) :]
    rows: list[Row] = []
    times: Times = {}
    with tempfile.TemporaryDirectory() as folder:
        other = check_out(revision, Path(folder) / "checkout")
        trees = [Tree(ROOT, Path(folder) / "this"), Tree(other, Path(folder) / "other")]
        if "vectors" in part:
            rows += compare_vectors(trees, sentences[:100])
        if "losses" in part:
            rows += compare_losses(trees, words, steps)
        if "files" in part:
            rows += compare_files(trees, words)
        if "reading" in part:
            times |= compare_reading(trees, words[:128], rounds)
        if "training" in part:
            times |= compare_training(trees, words[:128], rounds, training_steps)
    tables = {f"against {revision}": rows, "speed, one thread": ratios(times)}
    tables = {title: table for title, table in tables.items() if table}
    show(tables, as_json=False)
    if output is not None:
        output.write_text(json.dumps(tables, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
