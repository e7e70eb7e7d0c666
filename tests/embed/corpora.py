"""Small texts and biLMs, for the tests of `embed`."""

import hashlib
import json
from pathlib import Path
from typing import Any

from spacy_elmo import BiLM, embed
from spacy_elmo.embed import Options, run

from ..models import tiny_config

SIZES = {
    "hidden_dim": 32,
    "projection_dim": 16,
    "char_dim": 16,
    "filters": ((1, 16), (2, 16), (3, 32)),
}
SMALL = 0.002  # MB of a shard, so that a few lines make several


def save_model(folder: Path, **changes: Any) -> str:
    BiLM.random(tiny_config(**{**SIZES, **changes}), seed=1).save(folder)
    return str(folder)


def lines(n: int = 60) -> list[str]:
    return [
        f"Line {i} is of two sentences. 고양이 number {i * 7}, {'long ' * (i % 5)}."
        for i in range(n)
    ]


def write_lines(path: Path, n: int = 60) -> str:
    path.write_text("".join(f"{line}\n" for line in lines(n)), encoding="utf-8")
    return str(path)


def write_jsonl(path: Path, records: list[Any]) -> str:
    text = "".join(f"{json.dumps(record)}\n" for record in records)
    path.write_text(text, encoding="utf-8")
    return str(path)


def make_plan(model, inputs, output, **options: Any):
    """Plan with options by name."""
    return embed.make_plan(model, inputs, output, Options(**options))


def embed_files(folder: Path, inputs: list[str], **options: Any) -> Path:
    """Embed files with a small model. Return the folder of vectors."""
    model, output = folder / "model", folder / "vectors"
    if not model.exists():
        save_model(model)
    _, encoder = make_plan(str(model), inputs, output, **{"shard_mb": SMALL, **options})
    run(output, encoder=encoder)
    return output


def contents(output: Path) -> dict[str, str]:
    """Hash of every file of a folder, by name."""
    return {
        str(path.relative_to(output)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(output.rglob("*"))
        if path.is_file()
    }


def shards(output: Path) -> dict[str, str]:
    return contents(output / "shards")
