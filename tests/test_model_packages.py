"""Packages of models, which entry points name: the model of a language is found where
its package is installed, and the message says what to install where it is not."""

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import spacy

from spacy_elmo import BiLM, models
from spacy_elmo.bilm import BiLMConfig

from .cli.test_cli import run
from .models import tiny_config

ROOT = Path(__file__).parents[1]
WORDS = ["Das", "ist", "gut", "."]
METADATA = "Metadata-Version: 2.1\nName: spacy-elmo-{lang}\nVersion: 1\n"


def put(site, name, bilm, module=None):
    """Put a package of a model where installers put one."""
    lang = name.partition("_")[0]
    about = site / f"spacy_elmo_{lang}-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(METADATA.format(lang=lang))
    entry = f"[spacy_elmo_models]\n{name} = {module or name}\n"
    (about / "entry_points.txt").write_text(entry)
    if bilm is not None:
        card = {"version": "7", "parameters": bilm.n_parameters}
        bilm.save(site / name, card=card)
        # One that has to be run would be found out.
        (site / name / "__init__.py").write_text("raise RuntimeError")


@pytest.fixture
def german(tmp_path, monkeypatch):
    """A German model of the shipped sizes that is installed."""
    bilm = BiLM.random(BiLMConfig.from_dict(models.sizes()))
    put(tmp_path / "site", "de_elmo_sm", bilm)
    monkeypatch.syspath_prepend(tmp_path / "site")
    return bilm


def read(nlp):
    return nlp(spacy.tokens.Doc(nlp.vocab, words=WORDS)).tensor


def test_a_language_finds_its_package(german, tmp_path):
    nlp = spacy.blank("de")
    elmo = nlp.add_pipe("elmo")
    found = read(nlp)
    np.testing.assert_allclose(found, german.encode([WORDS])[0].mean(0), atol=1e-5)
    assert nlp.meta["elmo"] == {"elmo": {"weights": "de_elmo_sm", "version": "7"}}
    assert elmo.fingerprint() == german.fingerprint()
    nlp.to_disk(tmp_path / "pipeline")
    shutil.rmtree(tmp_path / "site")  # a saved pipeline has its own weights
    assert np.array_equal(read(spacy.load(tmp_path / "pipeline")), found)


def test_it_is_found_by_its_name(german, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "site" / "de_elmo_sm"
    assert models.find("de_elmo_sm") == models.locate("de_elmo_sm") == folder
    assert models.folder("de") == folder
    nlp = spacy.blank("xx")
    nlp.add_pipe("elmo", config={"weights": "de_elmo_sm"})
    np.testing.assert_array_equal(read(nlp), read_by_language := read(with_elmo("de")))
    assert read_by_language.any()
    Path("text.txt").write_text("Das ist gut.\n")
    run("embed", "plan", "de_elmo_sm", "text.txt", "--output", "vectors")
    plan = json.loads(Path("vectors", "plan.json").read_text())
    assert plan["model"] == "de_elmo_sm"


def with_elmo(lang):
    nlp = spacy.blank(lang)
    nlp.add_pipe("elmo")
    return nlp


def test_a_folder_of_the_name_is_taken_first(german, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("de_elmo_sm").mkdir()
    assert models.find("de_elmo_sm") == Path("de_elmo_sm")
    assert models.locate("de_elmo_sm") == tmp_path / "de_elmo_sm"


def test_models_lists_it(german):
    names = [*models.MODELS.values(), "de_elmo_sm"]
    cards = json.loads(run("models", "--json"))
    assert list(cards) == names
    assert cards["de_elmo_sm"]["package"] == "spacy-elmo-de"
    assert cards["en_elmo_sm"]["package"] == "spacy-elmo"
    table = run("models")
    assert all(name in table for name in names) and "spacy-elmo-de" in table
    assert json.loads(run("models", "de")) == cards["de_elmo_sm"]


def test_without_it_the_message_says_what_to_install():
    with pytest.raises(ValueError, match=r"EL191.*'de'.*pip install spacy-elmo-de$"):
        read(with_elmo("de"))
    with pytest.raises(ValueError, match=r"EL081.*'en_elmo_sm' for 'en'"):
        read(with_elmo("sv"))
    assert "pip install spacy-elmo-de" in run(
        "init-config", "-", "--lang", "de", fails=True
    )


def test_a_language_of_another_package_needs_no_line_here(tmp_path, monkeypatch):
    bilm = BiLM.random(BiLMConfig.from_dict(models.sizes()))
    put(tmp_path, "sv_elmo_lg", bilm)
    monkeypatch.syspath_prepend(tmp_path)
    assert with_elmo("sv").get_pipe("elmo").fingerprint() == bilm.fingerprint()


def test_no_package_takes_the_place_of_a_model_that_ships(tmp_path, monkeypatch):
    put(tmp_path, "en_elmo_sm", BiLM.random(tiny_config()))
    monkeypatch.syspath_prepend(tmp_path)
    assert models.find("en_elmo_sm") == models.FOLDER / "en_elmo_sm"
    assert models.folder("en") == models.FOLDER / "en_elmo_sm"


@pytest.mark.parametrize("module", ["de_elmo_sm", "spacy_elmo_gone.de_elmo_sm"])
def test_a_package_without_its_module(module, tmp_path, monkeypatch):
    put(tmp_path, "de_elmo_sm", None, module)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"EL190.*'spacy-elmo-de'.*pip install"):
        read(with_elmo("de"))
    assert read(with_elmo("en")).any()
    assert "EL190" in run("models", fails=True)


# -- the package of the repository ---------------------------------------------------

PACKAGES = sorted((ROOT / "models").glob("*/pyproject.toml"))


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: path.parent.name)
def test_the_package_is_the_one_that_the_message_names(path):
    name = path.parent.name
    project = tomllib.loads(path.read_text())["project"]
    assert project["name"] == models.PACKAGES[name.partition("_")[0]]
    assert project["entry-points"]["spacy_elmo_models"] == {name: name}
    assert (path.parent / name / "ATTRIBUTION.md").exists()


@pytest.mark.slow
@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: path.parent.name)
def test_its_wheel_is_found_by_a_new_process(path, tmp_path):
    """With small random weights in the place of its own, which may not be there."""
    name, lang = path.parent.name, path.parent.name.partition("_")[0]
    source, site = tmp_path / "source", tmp_path / "site"
    shutil.copytree(path.parent, source)
    bilm = BiLM.random(BiLMConfig.from_dict(models.sizes()))
    bilm.save(source / name)
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index"]
    command = [*pip, "--no-build-isolation", "--target", site, source]
    subprocess.run(command, check=True, capture_output=True)
    code = (
        f"import sys; sys.path.insert(0, {str(site)!r})\n"
        f"import spacy; nlp = spacy.blank({lang!r})\n"
        "print(nlp.add_pipe('elmo').fingerprint())"
    )
    said = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert said.split()[-1] == bilm.fingerprint()
