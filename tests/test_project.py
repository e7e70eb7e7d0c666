"""Both project files: what a stranger runs, and the experiments."""

import importlib
import json
import random
import re
import runpy
import shlex
import shutil
from pathlib import Path

import pytest
import spacy
import srsly
import typer
from spacy.tokens import DocBin
from spacy.training.converters import iob_to_docs
from weasel.cli.document import project_document
from weasel.cli.run import project_run

from experiments.table import find_experiment, read_table
from experiments.text.__main__ import make_parser
from spacy_elmo import cli

from .cli.parsing import parse

ROOT = Path(__file__).parents[1]
PARTS = ("configs", "assets", "spacy_elmo", "examples", "experiments", "benchmarks")
PROJECTS = {
    name: srsly.read_yaml(ROOT / name / "project.yml") for name in (".", "experiments")
}


@pytest.fixture
def project(tmp_path):
    """Return a folder that a workflow can write into."""
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copy(ROOT / "project.yml", folder)
    for part in PARTS:
        (folder / part).symlink_to(ROOT / part)
    return folder


def run(project, workflow, **overrides):
    variables = {f"vars.{name}": value for name, value in overrides.items()}
    project_run(project, workflow, overrides=variables, force=True, capture=True)


@pytest.mark.slow
def test_demo(project):
    run(project, "demo", steps=10, seeds=1)
    report = (project / "metrics" / "demo" / "report.md").read_text(encoding="utf-8")
    assert "10 updates a run" in report and "with ELMo" in report
    assert "| demo-tagger" in report and "| demo-ner" in report
    card = json.loads((project / "training/bilm/model-best/card.json").read_text())
    assert card["dev_perplexity"]["mean"] < card["dev_perplexity_before"]["mean"]
    nlp = spacy.load(project / "training/demo/demo-ner/elmo/0/model-best")
    assert nlp("Maya went to Leeds .").tensor.shape == (5, 512)


def conllu(n, rng):
    names, verbs = ["Ann", "Bob", "Kim"], ["sees", "hears", "likes"]
    tags = [("PROPN", "NNP"), ("VERB", "VBZ"), ("PROPN", "NNP"), ("PUNCT", ".")]
    sentences = []
    for _ in range(n):
        words = [rng.choice(names), rng.choice(verbs), rng.choice(names), "."]
        lines = [
            f"{i}\t{word}\t{word}\t{upos}\t{xpos}\t_\t2\tdep\t_\t_"
            for i, (word, (upos, xpos)) in enumerate(zip(words, tags), start=1)
        ]
        sentences.append("\n".join(lines))
    return "\n\n".join(sentences) + "\n\n"


def columns(text):
    """Return word and entity, as WNUT-17 has them."""
    lines = []
    for line in text.splitlines():
        _, word, _, upos, *_ = line.split("\t") if line else [""] * 4
        lines.append(
            f"{word}\t{'B-person' if upos == 'PROPN' else 'O'}" if word else ""
        )
    return "\n".join(lines)


@pytest.mark.slow
def test_public_corpora_and_a_text_of_ones_own(project):
    rng, corpus = random.Random(0), project / "corpus"
    corpus.mkdir()
    names = [Path(asset["dest"]).name for asset in PROJECTS["."]["assets"]]
    for name in names:
        text = conllu(30, rng)
        text = text if name.endswith("conllu") else columns(text)
        (corpus / name).write_text(text)
    for name, n in (("mine.txt", 400), ("held_out.txt", 9)):
        (project / name).write_text("The cat saw a dog in town.\n" * n)
    run(project, "pretrain", text="mine.txt", held_out="held_out.txt")
    card = json.loads((project / "training/bilm/model-best/card.json").read_text())
    assert card["text"]["files"] == ["mine.txt"]
    run(project, "public-convert")
    docs = DocBin().from_disk(project / "corpus/wnut17/test.spacy")
    assert sum(len(d.ents) for d in docs.get_docs(spacy.blank("en").vocab)) == 60
    run(project, "public-train", public_steps=5, seeds=2)
    run(project, "public-evaluate")
    report = (project / "metrics" / "public" / "report.md").read_text(encoding="utf-8")
    assert "| ewt-xpos" in report and "| wnut17" in report and " ± " in report


COMMANDS = [
    (project, line)
    for project, content in PROJECTS.items()
    for command in content["commands"]
    for line in command["script"]
    if "python -c" not in line
]


@pytest.mark.parametrize(("project", "line"), COMMANDS)
def test_commands_have_their_options(project, line):
    for name, value in PROJECTS[project]["vars"].items():
        line = line.replace(f"${{vars.{name}}}", str(value))
    assert "${" not in line
    # Commands look for a model before they run.
    line = re.sub(r"training/\S+/model-best", "en_elmo_sm", line)
    program, *arguments = shlex.split(line)
    assert program == "python"
    if arguments[0] == "-m" and arguments[1] == "spacy":
        if arguments[2] != "elmo":
            return  # spaCy's own
        app, arguments = cli.app, arguments[3:]
    elif arguments[0].startswith("examples/"):
        script = runpy.run_path(str(ROOT / arguments[0]))
        assert "main" in script and set(arguments[1:]) <= {"--word", "play"}
        return
    else:  # "-m experiments.NAME" here, ". NAME" in the folder of the experiments
        assert arguments[0] == ("-m" if project == "." else ".")
        _, name, *arguments = arguments
        name = name if "." in name else f"experiments.{name}"
        if name == "experiments.text":
            assert make_parser().parse_args(arguments)
            return
        module = importlib.import_module(name)
        app = typer.Typer()
        app.command()(module.main)
    _, context = parse(app, arguments)
    for name in context.params.get("names") or ():
        assert find_experiment(name)


@pytest.mark.parametrize("project", PROJECTS)
def test_workflows_and_assets(project, tmp_path):
    content = PROJECTS[project]
    commands = {command["name"] for command in content["commands"]}
    for steps in content["workflows"].values():
        assert set(steps) <= commands
    for asset in content["assets"]:
        assert asset["dest"].startswith("corpus/")
        if "checksum" not in asset:  # what makes it has checked what is inside
            assert "`python -m experiments.text evaluation`" in asset["description"]
            continue
        assert len(asset["checksum"]) == 32
        if project == ".":  # a stranger has nothing else
            assert asset["url"].startswith("https://")
    project_document(ROOT / project, tmp_path / "workflows.md")
    text = (tmp_path / "workflows.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in content["workflows"])


def test_what_ships_is_what_a_workflow_has_trained():
    """What `ship` reads is what it waits for, and what a command before it makes."""
    project = PROJECTS["experiments"]
    commands = {command["name"]: command for command in project["commands"]}
    shipped = set()
    for steps in project["workflows"].values():
        for place, name in enumerate(steps):
            if not name.startswith("ship"):
                continue
            before = [commands[each].get("outputs", []) for each in steps[:place]]
            read = {x for x in commands[name]["deps"] if x.startswith("training/")}
            assert read and read <= {made for each in before for made in each}
            shipped |= read
    trained = {row["trained"] for row in read_table()["models"].values()}
    assert trained == shipped


def test_demo_corpus_is_well_formed():
    """More than 400 sentences, tagged in full, and no sentence in two parts."""
    seen, n_entities = {}, 0
    for path in sorted((ROOT / "assets" / "demo").glob("*/*.iob")):
        for doc in docs_of(path):
            assert doc.text not in seen, doc.text
            seen[doc.text] = path
            assert {token.tag_ for token in doc} <= UNIVERSAL_TAGS
            assert {ent.label_ for ent in doc.ents} <= {"PER", "LOC", "ORG"}
            n_entities += len(doc.ents)
    assert len(seen) > 400 and n_entities > 140


@pytest.mark.parametrize("part", ["train", "dev"])
def test_demo_text_is_that_of_the_corpus(part):
    paths = sorted((ROOT / "assets" / "demo" / part).iterdir())
    expected = "".join(f"{doc.text}\n" for path in paths for doc in docs_of(path))
    path = ROOT / "assets" / "demo" / f"{part}.txt"
    assert path.read_text(encoding="utf-8") == expected


def docs_of(path):
    return iob_to_docs(path.read_text(encoding="utf-8"), n_sents=1, no_print=True)


UNIVERSAL_TAGS = set(
    "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ VERB X".split()  # noqa: SIM905
)
