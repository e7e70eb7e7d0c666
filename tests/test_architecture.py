"""What runs without what. Which module may import which is in pyproject.toml."""

import ast
import importlib
import inspect
import pydoc
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

from spacy_elmo.models import read_card

from .pretrain.runs import prepare_text, write_config, write_text
from .project import ROOT

# Registries are one file, and a door by themselves.
DOORS = {"__init__.py", "registry.py"}


def run(code):
    subprocess.run([sys.executable, "-c", code], check=True)


def without(*names):
    """Code after which importing any of these modules raises ImportError."""
    return f"import sys\nsys.modules.update(dict.fromkeys({names!r}))\n"


def test_no_module_imports_itself_through_others():
    """Imports inside functions count."""
    graph = grimp.build_graph(
        "spacy_elmo", exclude_type_checking_imports=True, cache_dir=None
    )
    imported = {m: graph.find_modules_directly_imported_by(m) for m in graph.modules}
    assert sum(map(len, imported.values())) > 100
    TopologicalSorter(imported).prepare()  # raises CycleError, which names the circle


def test_bilm_runs_without_spacy(tmp_path):
    run(f"""
{without("spacy", "thinc", "cupy")}
from spacy_elmo import BiLM
from spacy_elmo.bilm import BiLMConfig
bilm = BiLM.random(BiLMConfig(hidden_dim=8, projection_dim=4, filters=((1, 4),)))
bilm.save({str(tmp_path)!r})
assert BiLM.load({str(tmp_path)!r}).encode([["a", "b"]])[0].shape == (3, 2, 8)
import spacy_elmo.explore, spacy_elmo.pretrain
""")


def test_text_is_prepared_without_torch(tmp_path):
    (tmp_path / "text.txt").write_text("the cat sat\n" * 9)
    run(f"""
{without("spacy", "thinc", "cupy", "torch")}
from pathlib import Path
from spacy_elmo.text import Request, open_corpus, prepare
folder = Path({str(tmp_path)!r})
request = Request(tokenizer="whitespace", sentences=False)
prepare([folder / "text.txt"], folder / "out", request, progress=False)
assert open_corpus(folder / "out").n_tokens == 27
""")


def test_trainer_runs_without_spacy(tmp_path):
    """From prepared text, as on a node that has torch and little else."""
    write_text(tmp_path)
    prepare_text(tmp_path)
    for name in ("train", "dev"):
        (tmp_path / f"{name}.txt").unlink()
    config = write_config(tmp_path)
    config.write_text(config.read_text().replace(".txt", ""))
    output = tmp_path / "out"
    run(f"""
{without("spacy", "thinc", "cupy")}
import runpy
sys.argv = ["train", {str(config)!r}, "--output", {str(output)!r}]
runpy.run_module("spacy_elmo.pretrain", run_name="__main__")
""")
    said = read_card(output / "model-best")["command"]
    assert said.startswith("python -m spacy_elmo.pretrain ") and str(config) in said


def test_command_line_module_is_light():
    """spaCy imports it for every one of its commands."""
    run("""
import sys
import spacy.cli
before = set(sys.modules)
import spacy_elmo.cli
loaded = {n for n in set(sys.modules) - before if n.startswith(("spacy_elmo.", "h5py"))}
light = "spacy_elmo.cli", "spacy_elmo.errors", "spacy_elmo.output"
assert all(name.startswith(light) for name in loaded), loaded
""")


def test_the_api_reference_names_doors():
    """What code imports comes from a room, not from a file in it."""
    page = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    names = re.findall(r":: (spacy_elmo\.\S+)", page)
    assert len(names) > 30
    for name in names:
        door, _, rest = name.rpartition(".")
        if inspect.isclass(pydoc.locate(door)):  # a method
            door, _, rest = door.rpartition(".")
        found = pydoc.locate(f"{door}.{rest}")
        assert found is not None, name
        if not inspect.ismodule(found):
            assert Path(sys.modules[door].__file__).name in DOORS, name


@pytest.mark.parametrize("door", ["spacy_elmo", "spacy_elmo.bilm"])
def test_doors_that_open_late_have_what_type_checkers_see(door):
    module = importlib.import_module(door)
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    (block,) = (n for n in tree.body if isinstance(n, ast.If))
    seen = {alias.asname for node in block.body for alias in node.names}
    assert seen == set(module.LAZY)
    for name in seen:
        assert getattr(module, name) is not None


UNIX = {"resource", "fcntl", "pwd", "grp", "termios"}


def needed_to_import(nodes):
    """Yield the modules that code imports when it is imported itself, but those whose
    absence it catches."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
        elif isinstance(node, ast.Try) and any(map(is_import_error, node.handlers)):
            yield from needed_to_import([*node.handlers, *node.orelse, *node.finalbody])
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.expr):
            yield from needed_to_import(ast.iter_child_nodes(node))


def is_import_error(handler):
    return handler.type is None or "ImportError" in ast.unparse(handler.type)


def test_no_file_needs_modules_of_unix_to_be_imported():
    """On Windows, tests and what they import are collected too."""
    found = set()
    for folder in ("spacy_elmo", "tests", "attacks", "benchmarks", "experiments"):
        for path in (ROOT / folder).rglob("*.py"):
            code = ast.parse(path.read_text(encoding="utf-8"))
            if UNIX & set(needed_to_import(code.body)):
                found.add(path.relative_to(ROOT).as_posix())
    assert found == set()
