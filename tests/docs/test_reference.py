"""The reference says all that there is, and the site builds."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from spacy_elmo.errors import Errors, Warnings
from spacy_elmo.pretrain import config  # noqa: F401  (registers what it names)
from spacy_elmo.registry import registry

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture
def extensions(monkeypatch):
    pytest.importorskip("sphinx", reason="needs the extra 'docs'")
    monkeypatch.syspath_prepend(str(DOCS / "extensions"))


def test_every_code_has_a_cause_and_a_way_out(extensions):
    from error_codes import WAYS_OUT, codes

    found = {code.code: code for code in codes()}
    known = {n for n in (*vars(Errors), *vars(Warnings)) if n.startswith("EL")}
    assert set(found) == known
    lines = WAYS_OUT.read_text(encoding="utf-8").splitlines()
    more = [line.partition(":")[0] for line in lines]
    # Those whose message has the cause alone, and no others.
    assert set(more) == {c for c, each in found.items() if not each.way_out}
    assert more == sorted(more, key=lambda code: (code[2] == "W", code))


def test_the_page_of_codes_is_that_of_the_messages(extensions):
    from error_codes import PAGE, page

    written = PAGE.read_text(encoding="utf-8")
    assert written == page(), "run python docs/extensions/error_codes.py"


def test_every_command_is_there(extensions):
    from commands import walk
    from typer.main import get_command

    from spacy_elmo.cli import app

    names = {name for name, _ in walk(get_command(app))}
    assert {"elmo models", "elmo pretrain", "elmo embed run"} <= names


@pytest.mark.slow
def test_the_site_builds(tmp_path):
    pytest.importorskip("sphinx", reason="needs the extra 'docs'")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-n", "-b", "html"]
    done = subprocess.run(
        [*command, "docs", tmp_path / "site"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "reference" / "errors.html").read_text("utf-8")
    assert 'id="el050"' in page
    # Nothing is fetched from elsewhere when a page is read.
    for path in (tmp_path / "site").rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert 'src="http' not in text and 'stylesheet" href="http' not in text, path


def test_every_registered_name_has_its_settings():
    page = (DOCS / "reference" / "settings.md").read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    names = set(re.findall(r'^"(spacy-elmo\.\w+\.v\d)" = ', project, re.MULTILINE))
    for entries in (registry.objectives, registry.optimizers, registry.schedules):
        names |= {name for name in entries.get_all() if name.startswith("spacy-elmo.")}
    assert len(names) > 15
    assert not {name for name in names if name not in page}


def test_docstrings_keep_what_they_say(extensions):
    from docstrings import render

    text = "Return 2 * x|y of `files.load`.\n\nRaises:\n    ValueError: [EL050] if not."
    assert render(text).splitlines() == [
        r"Return 2 \* x\|y of ``files.load``.",
        "",
        "Raises:",
        "    ValueError: [:ref:`EL050 <el050>`] if not.",
    ]
    diagram = "Docs -> layers.\n\n    Docs -> * -> layers\n"
    assert ".. code-block:: text\n\n    Docs -> * -> layers" in render(diagram)


def test_every_setting_has_a_description(extensions):
    from settings_tables import find, settings_of

    page = (DOCS / "reference" / "settings.md").read_text(encoding="utf-8")
    tables = re.findall(r"^```\{settings\} (.+)\n((?:.+\n)*?)```$", page, re.MULTILINE)
    assert len(tables) > 20
    for where, content in tables:
        more = dict(line.split(": ", 1) for line in content.splitlines())
        for setting in settings_of(find(where), more):
            assert setting.text, f"{where}: {setting.name}"
