"""Two revisions are compared, each in processes of its own."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from benchmarks.against import difference, main
from benchmarks.revisions import Tree, check_out

ROOT = Path(__file__).parents[2]


def test_differences_are_said():
    a = np.array([1.0, -2.0], dtype=np.float32)
    assert difference(a, a.copy()) == "same bits"
    assert (
        difference(a + np.float32(2e-3), a) == "differ by 1.0e-03 of the largest value"
    )
    assert "other shapes" in difference(a, a[:1])
    assert difference(np.float32([0.0]), np.float32([-0.0])) != "same bits"


def test_a_tree_is_imported_with_entry_points_of_its_own(tmp_path):
    source = tmp_path / "source"
    (source / "spacy_elmo").mkdir(parents=True)
    (source / "spacy_elmo" / "__init__.py").write_text("here = 'the other one'")
    (source / "pyproject.toml").write_text(
        '[project.entry-points.spacy_readers]\n"some.v1" = "spacy_elmo:here"\n'
    )
    tree = Tree(source, tmp_path / "tree")
    code = """
from importlib.metadata import entry_points
import spacy_elmo
groups = "spacy_readers", "spacy_factories"
ours = [e for group in groups for e in entry_points(group=group)]
print(spacy_elmo.here, [e.name for e in ours if e.value.startswith("spacy_elmo")])
"""
    assert tree.run("-c", code) == "the other one ['some.v1']\n"
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        tree.run("-c", "1 / 0")


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_this_revision_is_as_it_is(tmp_path):
    try:
        check_out("HEAD", tmp_path / "checkout")
    except subprocess.CalledProcessError:
        pytest.skip("not a git checkout")
    main(
        "HEAD",
        part=["vectors", "losses", "files"],
        steps=2,
        rounds=1,
        training_steps=2,
        output=tmp_path / "found.json",
    )
    found = json.loads((tmp_path / "found.json").read_text())
    assert {"what", "result"} == set(found["against HEAD"][0])
    assert any("losses" in row["result"] for row in found["against HEAD"])
