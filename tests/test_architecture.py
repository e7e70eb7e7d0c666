"""Imports point down only, and the biLM runs where there is no spaCy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from spacy_elmo.pretrain.card import read_card

from .pretrain.runs import prepare_text, write_config, write_text

PACKAGE = Path(__file__).parents[1] / "spacy_elmo"
# From the bottom to the top; a module imports only from its own row and those above it.
LAYERS = [
    ["errors", "atomic_files", "registry", "pictures", "__init__"],
    ["bilm"],
    ["models"],
    ["text"],
    ["pretrain"],
    ["layers"],
    ["component"],
    ["cli"],
]
# May look up for type checking alone.
TYPES_ONLY: set[tuple[str, str]] = set()
SPACY_FREE = [
    "errors",
    "atomic_files",
    "bilm",
    "models",
    "text",
    "pretrain",
]
SPACY_STEP = PACKAGE / "text" / "reading.py"


def modules():
    return sorted(PACKAGE.rglob("*.py"))


def top(path: Path) -> str:
    relative = path.relative_to(PACKAGE).with_suffix("")
    return relative.parts[0]


def level(name: str) -> int:
    return next(i for i, row in enumerate(LAYERS) if name in row)


def imports(path: Path):
    """What a module imports: (names of our own modules, names of others), and where
    only types are imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = path.relative_to(PACKAGE.parent).with_suffix("").parts[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (("other", alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0:
                yield "other", (node.module or "").split(".")[0]
                continue
            base = package[: len(package) - node.level + 1]
            full = [*base, *(node.module or "").split(".")]
            full = [part for part in full if part][1:]
            names = [full[0]] if full else [alias.name for alias in node.names]
            yield from (("own", name) for name in names)


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path):
    if path == PACKAGE / "__init__.py":
        return  # names what others may import, and imports it when asked
    here = top(path)
    for kind, name in imports(path):
        if kind == "own" and name != "__version__" and (here, name) not in TYPES_ONLY:
            assert level(name) <= level(here), f"{here} imports {name} from above"
        if kind == "other" and here in SPACY_FREE and path != SPACY_STEP:
            assert name not in ("spacy", "thinc"), f"{path} imports {name}"


def test_every_module_has_its_place():
    known = {name for row in LAYERS for name in row}
    assert {top(path) for path in modules()} == known
    assert sorted(known) == sorted(name for row in LAYERS for name in row)


def test_files_hold_one_idea():
    for path in modules():
        n_lines = len(path.read_text(encoding="utf-8").splitlines())
        assert n_lines <= 400, f"{path.name} has {n_lines} lines: split it"


def test_bilm_runs_without_spacy(tmp_path):
    code = f"""
import sys
for name in ("spacy", "thinc", "cupy"):
    sys.modules[name] = None  # importing it raises ImportError
from spacy_elmo import BiLM
from spacy_elmo.bilm.config import BiLMConfig
bilm = BiLM.random(BiLMConfig(hidden_dim=8, projection_dim=4, filters=((1, 4),)))
bilm.save({str(tmp_path)!r})
assert BiLM.load({str(tmp_path)!r}).encode([["a", "b"]])[0].shape == (3, 2, 8)
import spacy_elmo.pretrain.loop
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_trainer_runs_without_spacy(tmp_path):
    """From prepared text, as on a node that has torch and little else."""
    write_text(tmp_path)
    prepare_text(tmp_path)
    for name in ("train", "dev"):
        (tmp_path / f"{name}.txt").unlink()
    config = write_config(tmp_path)
    text = config.read_text().replace(".txt", "")
    config.write_text(text)
    output = tmp_path / "out"
    code = f"""
import runpy, sys
for name in ("spacy", "thinc", "cupy"):
    sys.modules[name] = None
sys.argv = ["train", {str(config)!r}, "--output", {str(output)!r}]
runpy.run_module("spacy_elmo.pretrain", run_name="__main__")
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    said = read_card(output / "model-best")["command"]
    assert said.startswith("python -m spacy_elmo.pretrain ") and str(config) in said


def test_command_line_module_is_light():
    """spaCy imports it for every one of its commands."""
    code = """
import sys
import spacy.cli
before = set(sys.modules)
import spacy_elmo.cli
loaded = {n for n in set(sys.modules) - before if n.startswith(("spacy_elmo.", "h5py"))}
assert all(name.startswith("spacy_elmo.cli") for name in loaded), loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_message_has_a_test():
    errors = (PACKAGE / "errors.py").read_text(encoding="utf-8")
    tests = "".join(
        p.read_text(encoding="utf-8") for p in Path(__file__).parent.rglob("*.py")
    )
    raising = [
        *modules(),
        *(PACKAGE.parent / "benchmarks").rglob("*.py"),
        *(PACKAGE.parent / "experiments").rglob("*.py"),
    ]
    source = "".join(
        path.read_text(encoding="utf-8") for path in raising if path.name != "errors.py"
    )
    codes = [
        line.split()[0] for line in errors.splitlines() if line.startswith("    EL")
    ]
    assert len(codes) > 40 and len(codes) == len(set(codes))
    for code in codes:
        assert code in tests, f"{code} is not provoked by any test"
        name = "Warnings" if code.startswith("ELW") else "Errors"
        assert f"{name}.{code}" in source, f"{code} is never raised"
