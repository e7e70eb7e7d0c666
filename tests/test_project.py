"""The project's workflows, by `spacy project run`, small."""

import importlib
import json
import random
import shlex
import shutil
from pathlib import Path

import pytest
import spacy
import srsly
import typer
from spacy.tokens import DocBin
from typer.main import get_command
from weasel.cli.document import project_document
from weasel.cli.run import project_run

from experiments import corpora, experiments, fetch
from experiments.corpora import read_docs
from experiments.report import rows
from spacy_elmo import cli

from .cli.test_spacy_commands import annotated

ROOT = Path(__file__).parents[1]
PARTS = ["project.yml", "configs", "assets", "spacy_elmo"]


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    for part in PARTS:
        if (ROOT / part).is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / part, folder / part, symlinks=True, ignore=ignore)
        else:
            shutil.copy(ROOT / part, folder / part)
    return folder


def run(project, workflow, **overrides):
    project_run(
        project,
        workflow,
        overrides={f"vars.{name}": value for name, value in overrides.items()},
        force=True,
        capture=True,
    )


@pytest.mark.slow
def test_demo(project):
    run(project, "demo", demo_steps=10)
    metrics = project / "metrics" / "demo"
    table = (metrics / "table.md").read_text(encoding="utf-8")
    for (title, without, with_elmo, _), line in zip(
        rows(metrics), table.splitlines()[2:]
    ):
        assert title in line and without in line and with_elmo in line
    card = json.loads((project / "training/demo/bilm/model-best/card.json").read_text())
    assert card["dev_perplexity"]["mean"] < card["dev_perplexity_before"]["mean"]
    nlp = spacy.load(project / "training" / "demo" / "ner_elmo" / "model-best")
    assert nlp("Maya went to Leeds .").tensor.shape == (5, 512)


def conllu(n, rng):
    names, verbs = ["Ann", "Bob", "Kim"], ["sees", "hears", "likes"]
    sentences = []
    for _ in range(n):
        words = [rng.choice(names), rng.choice(verbs), rng.choice(names), "."]
        tags = [("PROPN", "NNP"), ("VERB", "VBZ"), ("PROPN", "NNP"), ("PUNCT", ".")]
        lines = [
            f"{i}\t{word}\t{word}\t{upos}\t{xpos}\t_\t2\tdep\t_\t_"
            for i, (word, (upos, xpos)) in enumerate(zip(words, tags), start=1)
        ]
        sentences.append("\n".join(lines))
    return "\n\n".join(sentences) + "\n\n"


def iob2(text):
    lines = []
    for line in text.splitlines():
        if line:
            number, word, _, upos, *_ = line.split("\t")
            lines.append(
                f"{number}\t{word}\t{'B-PER' if upos == 'PROPN' else 'O'}\t-\t-"
            )
        else:
            lines.append("")
    return "# sent_id = 1\n" + "\n".join(lines) + "\n"


@pytest.fixture
def local_data(tmp_path, project):
    """A folder laid out as the corpora are, made up, and its hashes in the project."""
    import lzma

    rng, data = random.Random(0), tmp_path / "data"
    (data / "eval" / "pos").mkdir(parents=True)
    (data / "eval" / "ner").mkdir()
    (data / "lm").mkdir()
    for split in ("train", "dev", "test"):
        text = conllu(60, rng)
        (data / "eval" / "pos" / f"en_ewt-ud-{split}.conllu").write_text(text)
        (data / "eval" / "ner" / f"en_ewt-ud-{split}.iob2").write_text(iob2(text))
    words = [
        "the",
        "cat",
        "saw",
        "a",
        "dog",
        "and",
        "Ann",
        "likes",
        "Kim",
        "in",
        "town",
    ]
    lines = [" ".join(rng.choices(words, k=9)) + "." for _ in range(900)]
    text = "\n".join(lines).encode()
    (data / "lm" / "english_lm_train.txt.xz").write_bytes(lzma.compress(text))
    for split in ("valid", "test"):
        (data / "lm" / f"english_lm_{split}.txt").write_bytes(text[:2000])
    hashes = [
        f"{fetch.sha256(p)}  {p.name}" for p in data.glob("*/**/*") if p.is_file()
    ]
    (project / "assets" / "SHA256SUMS").write_text("\n".join(hashes) + "\n")
    return data


@pytest.mark.slow
def test_all(project, local_data):
    run(project, "all", data=str(local_data), steps=5, pretrain_tokens=5000)
    table = (project / "metrics" / "table.md").read_text(encoding="utf-8")
    assert "tagger" in table and "ner" in table
    docs = DocBin().from_disk(project / "corpus/ewt-ner/test.spacy")
    assert sum(len(d.ents) for d in docs.get_docs(spacy.blank("en").vocab)) == 120
    card = json.loads((project / "training/bilm/model-best/card.json").read_text())
    assert "corpus/english_lm_train.txt.xz" in card["text"]["files"]


@pytest.mark.slow
def test_pretrain_small_and_domain(project, local_data):
    """Trained, compared with an n-gram model, drawn; and fine-tuned on a domain."""
    text = (local_data / "lm" / "english_lm_train.txt.xz").read_bytes()
    (local_data / "lm" / "biomedical_lm_train.txt.xz").write_bytes(text)
    for split in ("valid", "test"):
        text = (local_data / "lm" / f"english_lm_{split}.txt").read_bytes()
        (local_data / "lm" / f"biomedical_lm_{split}.txt").write_bytes(text)
    hashes = [
        f"{fetch.sha256(p)}  {p.name}" for p in local_data.glob("*/**/*") if p.is_file()
    ]
    (project / "assets" / "SHA256SUMS").write_text("\n".join(hashes) + "\n")
    run(project, "pretrain-small", data=str(local_data), small_tokens=4000)
    picture = (project / "metrics" / "pretrain_small.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    run(project, "domain", data=str(local_data), domain_tokens=4000)
    path = project / "training" / "biomedical" / "model-best" / "card.json"
    card = json.loads(path.read_text())
    before, after = (card[f"dev_perplexity{x}"]["mean"] for x in ("_before", ""))
    assert after < before and card["also"]["general"]["after"]["mean"] > 1


def test_assets_are_checked_and_never_half_there(local_data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asset = {"dest": "corpus/english_lm_test.txt", "description": "Some text."}
    right = {"english_lm_test.txt": fetch.sha256(local_data / "lm/english_lm_test.txt")}
    with pytest.raises(FileNotFoundError, match="EL070"):
        fetch.fetch([asset], right, None)
    with pytest.raises(ValueError, match="EL071"):
        fetch.fetch([asset], {"english_lm_test.txt": "0" * 64}, local_data)
    assert list((tmp_path / "corpus").iterdir()) == []
    fetch.fetch([asset], right, local_data)
    assert [path.name for path in (tmp_path / "corpus").iterdir()] == [
        "english_lm_test.txt"
    ]
    url = (local_data / "lm" / "english_lm_test.txt").as_uri()
    (tmp_path / "corpus" / "english_lm_test.txt").unlink()
    fetch.fetch([{**asset, "url": url}], right, None)
    assert (tmp_path / "corpus" / "english_lm_test.txt").exists()


def test_download_that_fails(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asset = {"dest": "corpus/a.txt", "url": "http://127.0.0.1:9/a.txt"}
    with pytest.raises(ValueError, match="EL072"):
        fetch.fetch([asset], {"a.txt": "0" * 64}, None)


@pytest.mark.slow
def test_experiments_quick(project):
    for corpus in ("ewt-pos", "wnut17"):
        folder = project / "corpus" / corpus
        folder.mkdir(parents=True)
        for part in ("train", "dev", "test"):
            annotated(folder / f"{part}.spacy")
    run(project, "experiments-quick-train", quick_steps=4)
    report = project / "metrics" / "experiments_quick" / "report.md"
    text = report.read_text(encoding="utf-8")
    assert "4 updates a run" in text and text.count("(1 seed)") >= 4
    for task in ("ewt-xpos", "wnut17"):
        assert f"| {task}" in text


COMMANDS = [
    line
    for command in srsly.read_yaml(ROOT / "project.yml")["commands"]
    for line in command["script"]
    if "experiments." in line or "benchmarks." in line or "spacy elmo " in line
]


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_have_their_options(line):
    variables = srsly.read_yaml(ROOT / "project.yml")["vars"]
    for name, value in variables.items():
        line = line.replace(f"${{vars.{name}}}", str(value))
    assert "${" not in line
    _, _, module, *arguments = shlex.split(line)
    if module == "spacy":
        command = get_command(cli.app)
        arguments = arguments[1:]
    else:
        module = importlib.import_module(module)
        command = get_command(getattr(module, "app", None) or as_app(module.main))
    context = command.make_context(command.name, arguments)
    while hasattr(command, "resolve_command"):  # a group of commands
        given = [*context._protected_args, *context.args]
        name, command, arguments = command.resolve_command(context, given)
        context = command.make_context(name, arguments, parent=context)
    if module is experiments:
        assert set(context.params["tasks"].split(",")) <= set(experiments.TASKS)
        assert set(context.params["setups"].split(",")) <= set(experiments.SETUPS)


def as_app(main):
    app = typer.Typer()
    app.command()(main)
    return app


def test_documented(project):
    project_document(project, project / "workflows.md")
    text = (project / "workflows.md").read_text(encoding="utf-8")
    for name in ("`demo`", "`all`", "`pretrain-default`", "`train-ner`"):
        assert name in text


def test_every_asset_has_a_hash():
    hashes = fetch.read_hashes(ROOT / "assets" / "SHA256SUMS")
    names = {
        Path(a["dest"]).name for a in srsly.read_yaml(ROOT / "project.yml")["assets"]
    }
    assert names == set(hashes)


def test_converted_corpora(tmp_path):
    path = tmp_path / "a.iob2"
    path.write_text(
        "# text\n1\tNew\tB-LOC\t-\t-\n2\tYork\tI-LOC\t-\t-\n\n\n1\tyes\tO\t-\t-\n"
    )
    city, yes = read_docs(path)
    assert [(e.text, e.label_) for e in city.ents] == [("New York", "LOC")]
    assert yes.text.strip() == "yes" and not yes.ents
    with pytest.raises(ValueError, match="not an"):
        read_docs(Path(__file__))


def test_demo_corpus_is_well_formed():
    """More than 400 sentences, tagged in full, and no sentence in two splits."""
    seen, n_entities = {}, 0
    for path in sorted((ROOT / "assets" / "demo").glob("*/*.iob")):
        for doc in read_docs(path):
            assert doc.text not in seen, doc.text
            seen[doc.text] = path
            assert {token.tag_ for token in doc} <= UNIVERSAL_TAGS
            assert {ent.label_ for ent in doc.ents} <= {"PER", "LOC", "ORG"}
            n_entities += len(doc.ents)
    assert len(seen) > 400 and n_entities > 140


UNIVERSAL_TAGS = set(
    "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ VERB X".split()  # noqa: SIM905
)


def test_corpora_of_two_columns(tmp_path):
    path = tmp_path / "some.conll"
    lines = ["Kim\tB-PER", "saw\tO", "New\tB-LOC", "York\tI-LOC", "\t", "It\tO", ""]
    path.write_text("\n".join(lines), encoding="utf-8")
    first, second = read_docs(path)
    assert [e.text for e in first.ents] == ["Kim", "New York"]
    assert [t.text for t in second] == ["It"] and not second.ents


def test_universal_parts_of_speech_as_tags(tmp_path):
    path = tmp_path / "some.conllu"
    columns = ["1", "Kim", "Kim", "PROPN", "NNP", "_", "0", "root", "_", "_"]
    path.write_text("\t".join(columns) + "\n\n", encoding="utf-8")
    for upos, tag in ((False, "NNP"), (True, "PROPN")):
        corpora.convert(path, tmp_path / "out.spacy", upos)
        docs = (
            DocBin().from_disk(tmp_path / "out.spacy").get_docs(spacy.blank("en").vocab)
        )
        assert [t.tag_ for doc in docs for t in doc] == [tag]
