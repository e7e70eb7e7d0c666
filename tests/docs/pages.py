"""The code blocks of the documentation and the README, and how each is run.

A comment before a block says what is special about it:

    <!-- file: NAME -->         it is a file of that name, for the blocks below
    <!-- slow: REASON -->       it takes long, or needs a command above it
    <!-- not run: REASON -->    it can't be run offline on what the repository has

`python tests/docs/pages.py [PAGE ...]` runs all blocks of pages, without PAGE those of
the ten tasks, with the spacy-elmo that is installed. `make check-wheel` does.
"""

import ast
import math
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from confection import Config
from spacy.util import load_model_from_config

from spacy_elmo import BiLM
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.pretrain.config import read_config

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# What a reader who knows spaCy wants to do, and the one page that shows how.
TASKS = {
    "add it to a pipeline": "docs/guides/quickstart.md",
    "train ner": "docs/guides/ner.md",
    "load published weights": "docs/guides/published_weights.md",
    "embed a corpus": "docs/guides/corpora.md",
    "see a word's senses": "docs/guides/explore.md",
    "pretrain on own text": "docs/guides/pretrain.md",
    "fine-tune": "docs/guides/finetuning.md",
    "find an error's page": "docs/guides/troubleshooting.md",
    "extend an objective": "docs/extending/objective.md",
    "install a pipeline": "docs/guides/install_pipeline.md",
}
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
        assert math.isclose(value, said, abs_tol=0.501 * 10**-digits), where
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


def prepare(folder: Path) -> None:
    """Put a reader into a folder: in the repository, with weights and corpora of their
    own."""
    for part in ("configs", "assets", "examples", "experiments", "benchmarks"):
        (folder / part).symlink_to(ROOT / part)
    sizes = BiLMConfig(hidden_dim=12, projection_dim=6, filters=((1, 4), (2, 5)))
    BiLM.random(sizes, seed=1).save(folder / "published", format="bilm-tf")
    text = (ROOT / "assets" / "demo" / "dev.txt").read_text(encoding="utf-8")
    for file in ("news.txt", "held_out.txt", "general.txt"):
        (folder / file).write_text(text, encoding="utf-8")


def run(page: Path, folder: Path, *, slow: bool) -> None:
    """Run the blocks of a page in a folder, in which the process is."""
    namespace = {"__name__": "page"}
    for block in blocks(page):
        if block.mark == "not run" or (block.mark == "slow" and not slow):
            continue
        if block.mark == "file":
            path = folder / block.said
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        if block.language == "ini":
            check_config(block, folder)
        elif block.language == "python" and block.mark != "file":
            run_python(block, namespace)
        elif block.language == "bash" and slow:
            for command in commands(block):
                run_command(command, str(block), folder)


def run_command(command: str, where: str, folder: Path) -> None:
    """Run a command of a page with this Python. It must succeed."""
    # What the script does, which is not beside every Python.
    command = re.sub(r"^torchrun ", "python -m torch.distributed.run ", command)
    # Into the folder, which Python looks for packages in, and not beside every other.
    into = "pip install --no-index --no-deps --target ."
    command = command.replace("pip install dist/", f"{into} dist/")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(folder),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{where}: {command}\n{done.stdout}{done.stderr}"


def main(pages: list[str]) -> None:
    """Run pages, each in a new folder, and print how long each took."""
    import spacy_elmo

    print(f"spacy_elmo is {Path(spacy_elmo.__file__).parent}")  # noqa: T201
    for page in pages or TASKS.values():
        started = time.perf_counter()
        with TemporaryDirectory() as name:
            folder = Path(name)
            prepare(folder)
            os.chdir(folder)
            sys.path.insert(0, name)  # pipelines are installed into it
            run(ROOT / page, folder, slow=True)
            os.chdir(ROOT)
        seconds = time.perf_counter() - started
        print(f"{page}: {seconds:.0f} seconds", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
