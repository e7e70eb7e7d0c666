"""A treebank becomes a wheel that is installed and loaded without the network."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import DocBin
from typer.testing import CliRunner

from experiments.pipelines import __main__
from experiments.pipelines.__main__ import app
from experiments.pipelines.corpus import make_reader, paragraphs, write
from experiments.pipelines.scores import evaluate
from experiments.pipelines.sources import PIPELINES
from spacy_elmo import models as shipped
from spacy_elmo.models import ancestors, read_card

# Word, lemma, UPOS, XPOS, features, head, label: one sentence with a name to fill in.
SENTENCE = """\
1\t{name}\t{name}\tPROPN\tNNP\tNumber=Sing\t2\tnsubj\t_\t_
2\tsaw\tsee\tVERB\tVBD\tTense=Past\t0\troot\t_\t_
3\tthe\tthe\tDET\tDT\tDefinite=Def\t4\tdet\t_\t_
4\t{thing}s\t{thing}\tNOUN\tNNS\tNumber=Plur\t2\tobj\t_\tSpaceAfter=No
5\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t{misc}
"""
NAMES, THINGS = ("Ann", "Tom", "Rome", "Oslo"), ("bird", "boat", "tree")
RUNNER = CliRunner()
TREEBANK = Path(__file__).parents[2] / "assets" / "demo" / "treebank"


def treebank(n_paragraphs):
    """Return a treebank with three sentences in a paragraph, and its entities."""
    sentences, entities = [], []
    for number in range(3 * n_paragraphs):
        name, thing = NAMES[number % 4], THINGS[number % 3]
        head = f"# sent_id = s{number}\n"
        if number % 3 == 0:
            head = f"# newpar id = p{number // 3}\n{head}"
        # The first and the second sentence of a paragraph have no space between them.
        misc = "SpaceAfter=No" if number % 3 == 0 else "_"
        sentences.append(head + SENTENCE.format(name=name, thing=thing, misc=misc))
        label = "PER" if number % 4 < 2 else "LOC"
        words = [(name, f"B-{label}"), ("saw", "O"), ("the", "O"), (f"{thing}s.", "O")]
        lines = [f"{n}\t{word}\t{tag}\t-\t-\n" for n, (word, tag) in enumerate(words)]
        entities.append(f"# sent_id = s{number}\n{''.join(lines)}")
    return "\n".join(sentences), "\n".join(entities)


def test_an_interrupted_conversion_leaves_no_corpus(tmp_path, monkeypatch):
    def interrupted(docs):
        raise KeyboardInterrupt

    docs = list(paragraphs(*treebank(1)))
    monkeypatch.setattr(DocBin, "to_bytes", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(docs, tmp_path / "train.spacy")
    assert list(tmp_path.iterdir()) == []


def test_a_doc_is_a_paragraph_with_all_layers():
    first, second = paragraphs(*treebank(2))
    assert first.text == "Ann saw the birds.Tom saw the boats. Rome saw the trees. "
    assert [len(list(doc.sents)) for doc in (first, second)] == [3, 3]
    # The layer of entities has other tokens there: `birds.` is one.
    assert [(e.text, e.label_) for e in first.ents] == [
        ("Ann", "PER"), ("Tom", "PER"), ("Rome", "LOC")
    ]  # fmt: skip
    assert first[3].lemma_ == "bird" and first[3].head.text == "saw"


def test_what_the_layer_of_entities_lacks_is_unknown():
    text, entities = treebank(1)
    (doc,) = paragraphs(text, entities.replace("Tom", "Tim"))
    assert [token.ent_iob_ for token in doc[5:10]] == [""] * 5
    assert [e.text for e in doc.ents] == ["Ann", "Rome"]


def test_without_paragraphs_a_doc_is_five_sentences():
    lines = [line for line in treebank(4)[0].split("\n") if "newpar" not in line]
    docs = list(paragraphs("\n".join(lines)))
    assert [len(list(doc.sents)) for doc in docs] == [5, 5, 2]
    assert docs[0].text.startswith("Ann saw the birds. Tom")


def test_docs_are_divided_at_their_sentences(tmp_path):
    write(paragraphs(*treebank(2)), tmp_path / "two.spacy")
    nlp = spacy.blank("en")
    lengths = {10: [10, 5] * 2, 15: [15] * 2, 1: [5] * 6}
    for words, found in lengths.items():
        pieces = make_reader(tmp_path / "two.spacy", words)(nlp)
        assert [len(piece.reference) for piece in pieces] == found


def test_scores_are_of_the_tokens_and_sentences_that_are_asked_for():
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer", name="senter")
    docs = list(paragraphs(*treebank(2)))
    raw = evaluate(nlp, docs, gold=False)
    gold = evaluate(nlp, docs, gold=True)
    assert gold["token_f"] == 1 and "sents_f" not in gold
    assert raw["sents_f"] == 1


@pytest.mark.slow
def test_a_training_that_was_interrupted_is_made_again(tmp_path, monkeypatch):
    command = [__main__.FOLDER / "en_elmo_ewt.cfg", tmp_path / "corpus", tmp_path / "a"]
    __main__.convert_all(PIPELINES["en_elmo_ewt"], TREEBANK, tmp_path / "corpus")
    update, updates = Language.update, []

    def interrupted(*args, **settings):
        updates.append(args)
        if len(updates) == 2:
            raise KeyboardInterrupt
        return update(*args, **settings)

    with monkeypatch.context() as patch:
        patch.setattr(Language, "update", interrupted)
        with pytest.raises(KeyboardInterrupt):
            __main__.fit(*command, 2, elmo=False)
    weights = tmp_path / "a" / "model-best" / "tagger" / "model"
    times = [weights.stat().st_mtime_ns]
    for _ in range(2):
        assert __main__.fit(*command, 2, elmo=False) == tmp_path / "a" / "model-best"
        times.append(weights.stat().st_mtime_ns)
    assert times[0] < times[1] == times[2]
    with pytest.raises(SystemExit):
        __main__.fit(*command, 3, elmo=False)
    # Another treebank replaces the corpus, and not what was trained on the first.
    other = tmp_path / "other"
    shutil.copytree(TREEBANK, other)
    (path,) = other.glob("*-train.conllu")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.rstrip("\n").rpartition("\n\n")[0] + "\n\n", encoding="utf-8")
    __main__.convert_all(PIPELINES["en_elmo_ewt"], other, tmp_path / "corpus")
    with pytest.raises(SystemExit):
        __main__.fit(*command, 2, elmo=False)


@pytest.mark.slow
def test_from_a_treebank_to_an_installed_pipeline(tmp_path):
    folders = {"output": "runs", "dist": "dist", "cards": "cards"}
    options = [part for option, folder in folders.items()
               for part in (f"--{option}", str(tmp_path / folder))]  # fmt: skip
    command = ["en_elmo_ewt", "--treebanks", str(TREEBANK), *options, "--steps", "50"]
    done = RUNNER.invoke(app, command)
    assert done.exit_code == 0, done.output
    check_card(tmp_path / "cards")
    (wheel,) = (tmp_path / "dist").glob("en_elmo_ewt-*.whl")
    target = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "-q"]
    subprocess.run([*pip, "--target", str(target), str(wheel)], check=True)
    check_installed(target)


def check_card(folder):
    card = (folder / "en_elmo_ewt.md").read_text(encoding="utf-8")
    for source in PIPELINES["en_elmo_ewt"].sources:
        assert source["name"] in card
    for row in (
        "`ENTS_F`",
        "| parser, LAS |",
        "| ner | `PER` |",
        "| tagger | `NNS` | 100",
    ):
        assert row in card
    assert "CC BY-SA 4.0" in card and "Words/s" in card and "MB" in card
    assert "50 updates of 2,000 words" in card
    scores = json.loads((folder / "en_elmo_ewt.json").read_text(encoding="utf-8"))
    for ways in scores["test"].values():
        assert ways["gold tokens"]["token_f"] == ways["raw text"]["sents_f"] == 1
    assert scores["test"]["with ELMo"]["gold tokens"]["tag_acc"] > 0.9


def check_installed(target):
    program = f"""
import socket, sys
def refuse(*_): raise OSError("no network here")
socket.socket.connect = refuse
sys.path.insert(0, {str(target)!r})
import spacy
nlp = spacy.load("en_elmo_ewt")
doc = nlp("Ann saw the birds. Tom saw the boats.")
print([token.tag_ for token in doc], doc.has_annotation("DEP"))
for name in ("senter", "tok2vec", "tagger", "parser", "ner"):
    assert not any(node.ops.use_blis for node in nlp.get_pipe(name).model.walk())
print(nlp.meta["sources"][0]["license"], nlp.meta["requirements"], nlp.pipe_names)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "'NNP'" in done.stdout and "True" in done.stdout
    assert "CC BY-SA 4.0" in done.stdout and "spacy-elmo" in done.stdout
    (licences,) = target.glob("en_elmo_ewt-*.dist-info/**/LICENSES_SOURCES")
    assert "UD English EWT" in licences.read_text(encoding="utf-8")


@pytest.mark.parametrize("pipeline", PIPELINES.values(), ids=list(PIPELINES))
def test_a_corpus_of_several_parts_of_a_training_is_named_once(pipeline):
    names = [source["name"] for source in pipeline.text_sources()]
    assert len(names) == len(set(names))
    model = shipped.MODELS[pipeline.lang]
    card = read_card(shipped.find(model))
    for each in (card, *ancestors(card)):
        assert f"{model}: {each['text']['note']}" in names
