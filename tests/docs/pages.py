"""The code blocks of the documentation and the README, and how each is run.

A comment before a block says what is special about it:

    <!-- file: NAME -->         it is a file of that name, for the blocks below
    <!-- slow: REASON -->       it takes long, or needs a command above it
    <!-- not run: REASON -->    it can't be run offline on what the repository has
"""

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confection import Config
from spacy.util import load_model_from_config

from spacy_elmo.pretrain.config_file import read_config

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"(?:<!-- (?P<mark>file|slow|not run): (?P<said>[^>]*?) -->\n)?"
    r"^```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
# Blocks of Markdown that are no code, and directives of Sphinx, which have braces.
NO_CODE = {"text", "toml"}
RUN = {"python", "bash", "ini"}
# Sections that a training run of a biLM has, and no pipeline.
OF_TRAINER = {"text", "vocab", "model"}


@dataclass(frozen=True)
class Block:
    """A code block of a page."""

    page: Path
    line: int
    language: str
    text: str
    mark: str
    said: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page,
            text.count("\n", 0, match.start("text")),
            match["language"],
            match["text"],
            match["mark"] or "",
            match["said"] or "",
        )
        for match in BLOCK.finditer(text)
        if match["language"] not in NO_CODE
    ]


def commands(block: Block) -> list[str]:
    """Return the commands of a shell block, each on one line."""
    joined = block.text.replace("\\\n", " ")
    return [line for line in joined.splitlines() if line.strip() and line[0] != "#"]


def run_python(block: Block, namespace: dict[str, Any]) -> None:
    """Run a block; values that stand in comments beside expressions must be so."""
    tree = ast.parse(block.text, str(block))
    lines = block.text.splitlines()
    for statement in tree.body:
        module = ast.Module([statement], [])
        comment = lines[statement.end_lineno - 1][statement.end_col_offset :]
        said = comment.strip().removeprefix("#").strip()
        if isinstance(statement, ast.Expr) and is_value(said):
            value = eval(
                compile(ast.Expression(statement.value), str(block), "eval"), namespace
            )
            check(value, value_of(said), f"{block}, {ast.unparse(statement)}")
        else:
            exec(compile(module, str(block), "exec"), namespace)


def value_of(said: str) -> Any:
    """Return the value that a comment begins with: `(3, 17, 512): layers`."""
    return ast.literal_eval(said.partition(": ")[0])


def is_value(said: str) -> bool:
    try:
        value_of(said)
    except (ValueError, SyntaxError, TypeError):
        return False
    return True


def check(value: Any, said: Any, where: str) -> None:
    """Compare a value with what is said; floats to the digits that are said."""
    if isinstance(said, float):
        digits = len(str(said).partition(".")[2])
        assert value == pytest.approx(said, abs=10**-digits), where
    else:
        assert value == said, where


def check_config(block: Block, folder: Path) -> None:
    """Build what a configuration, or a part of one, describes."""
    config = Config().from_str(with_parents(block.text), interpolate=False)
    if OF_TRAINER & set(config) or "objective" in config.get("training", {}):
        path = folder / "shown.cfg"
        # With the text and the start that every configuration needs.
        config.setdefault("text", {"train": ["news.txt"], "dev": ["held_out.txt"]})
        if "model" not in config:
            config.setdefault("training", {}).setdefault("init", "en_elmo_sm")
        Config(config).to_disk(path, interpolate=False)
        read = read_config(path)
        for build in (read.objective, read.optimizer, read.schedule):
            build()
        return
    names = list(config.get("components", {}))
    if "elmo" not in names:
        names.insert(0, "elmo")
        config.setdefault("components", {})["elmo"] = {"factory": "elmo"}
    nlp = {"lang": "en", "pipeline": names, **config.get("nlp", {})}
    config = Config({"paths": {"bilm": None}, **config, "nlp": nlp})
    for name in names:
        if "source" not in config["components"][name]:
            config["components"][name].setdefault("factory", name)
    made = load_model_from_config(config.interpolate(), auto_fill=True, validate=True)
    assert made.pipe_names == nlp["pipeline"]


def with_parents(text: str) -> str:
    """Return a part of a configuration with the sections above those it shows."""
    names = re.findall(r"^\[([\w.]+)\]$", text, re.MULTILINE)
    parts = [name.split(".") for name in names]
    above = {".".join(p[:n]) for p in parts for n in range(1, len(p))} - set(names)
    return "".join(f"[{name}]\n\n" for name in sorted(above)) + text
