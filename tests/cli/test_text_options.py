"""Options of commands that read text: each changes what is read as it says."""

import json
import subprocess
import sys

import pytest
import spacy
from spacy.tokens import Doc, DocBin

from spacy_elmo.pretrain import perplexity
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.text.corpus import build_corpus
from spacy_elmo.text.shards import open_corpus

from ..explore.views import tiny_bilm, tiny_softmax
from ..pretrain.runs import write_config, write_text
from .test_cli import run

LINE = "We can't go . It's late.\n"
NAMES = ["none", "lang", "tokenizer", "sentences", "max-tokens"]
ENGLISH = [["We", "ca", "n't", "go", "."], ["It", "'s", "late", "."]]
# What is read of three lines.
READ = [
    ([], ENGLISH * 3),
    (["--lang", "de"], [["We", "can't", "go", "."], ["It's", "late", "."]] * 3),
    (["--tokenizer", "whitespace"], [LINE.split()[:4], LINE.split()[4:]] * 3),
    (["--no-sentences"], [[*ENGLISH[0], *ENGLISH[1]]] * 3),
    (["--max-tokens", 6], ENGLISH),
]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(LINE * 3)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    bilm = tiny_bilm()
    bilm.save(folder, softmax=tiny_softmax(bilm))
    return folder


@pytest.mark.parametrize(("options", "sentences"), READ, ids=NAMES)
def test_prepare(text, tmp_path, options, sentences):
    run("prepare", text, "-o", tmp_path / "out", *options)
    corpus = open_corpus(tmp_path / "out")
    ids = corpus.forward.read(0, len(corpus.forward))
    read = " ".join(corpus.words[i] for i in ids).replace("</S>", "<S>").split("<S>")
    assert [part.split() for part in read if part.strip()] == sentences


@pytest.mark.parametrize(("options", "sentences"), READ, ids=NAMES)
def test_perplexity(model, text, options, sentences):
    language_model = LanguageModel.load(model)
    corpus = build_corpus(sentences, vocab=language_model.bilm.vocab)
    expected = perplexity(language_model, corpus).to_dict()
    found = json.loads(run("perplexity", model, text, *options, "--json"))
    assert found == pytest.approx(expected, rel=1e-5)
    assert found["tokens"] == sum(map(len, sentences))


def test_kind_of_files_whose_names_do_not_say_it(model, tmp_path):
    data = tmp_path / "a.data"
    data.write_text(json.dumps({"text": LINE.strip()}) + "\n")
    how = ["--kind", "jsonl"]
    run("prepare", data, "-o", tmp_path / "out", *how)
    assert set(open_corpus(tmp_path / "out").words[3:]) == {*ENGLISH[0], *ENGLISH[1]}
    found = json.loads(run("perplexity", model, data, *how, "--json"))
    assert found["tokens"] == sum(map(len, ENGLISH))
    page = run("explore", "word", model, data, "--word", "late", *how, "-o", "-")
    assert '"contexts":[["It","\'s","late","."]]' in page
    assert "EL207" in run(
        "prepare", data, "-o", tmp_path / "x", "--kind", "pdf", fails=True
    )


def test_old_name_of_an_option_of_the_trainer_without_spacy(tmp_path):
    command = [sys.executable, "-m", "spacy_elmo.pretrain", "nowhere.cfg"]
    command += ["--output", "out", "--overwrite"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "EL037" in done.stdout
    assert "[ELW70] '--overwrite' is called '--force' now" in done.stderr


def test_perplexity_of_a_part_of_a_prepared_text(model, text, tmp_path):
    run("prepare", text, "-o", tmp_path / "out")
    asked = ["perplexity", model, tmp_path / "out", "--json"]
    assert json.loads(run(*asked))["tokens"] == 27
    assert json.loads(run(*asked, "--max-tokens", 6))["tokens"] == 9


def test_prepare_replaces_another_text_if_asked(text, tmp_path):
    asked = ["prepare", text, "-o", tmp_path / "out"]
    run(*asked)
    assert len(open_corpus(tmp_path / "out").vocab) == 3 + 8
    rare = [*asked, "--min-count", 4]
    assert "EL042" in run(*rare, fails=True)
    run(*rare, "--force")
    assert open_corpus(tmp_path / "out").vocab == ["<S>", "</S>", "<UNK>", "."]


def test_pretrain_replaces_another_run_if_asked(tmp_path):
    write_text(tmp_path)
    asked = ["pretrain", write_config(tmp_path), "-o", tmp_path / "out"]
    asked += ["--training.epochs", 1, "--text.train", f'["{tmp_path}/dev.txt"]']
    run(*asked)
    before = (tmp_path / "out/model-last/weights.safetensors").read_bytes()
    other = [*asked, "--training.seed", 5]
    assert "EL047" in run(*other, fails=True)
    run(*other, "--force")
    assert (tmp_path / "out/model-last/weights.safetensors").read_bytes() != before


@pytest.mark.parametrize(
    ("options", "tokens"),
    [
        ([], ["I", "can", "not", "."]),
        (["--lang", "de"], ["I", "cannot", "."]),
        (["--tokenizer", "whitespace"], ["I", "cannot."]),
    ],
    ids=NAMES[:3],
)
def test_tokens_of_explore(model, tmp_path, options, tokens):
    (tmp_path / "a.txt").write_text("I cannot.\nSo I cannot.\n")
    one, two = (json.dumps([*first, *tokens]) for first in ([], ["So"]))
    page = run("explore", "sentence", model, "I cannot.", "-o", "-", *options)
    assert f'"sentences":[{one}]'.replace(", ", ",") in page
    about = [model, tmp_path / "a.txt", "--word", "I", *options]
    page = run("explore", "word", *about, "-o", "-")
    assert f'"contexts":[{one},{two}]'.replace(", ", ",") in page
    shown = " ".join(["[I]", *tokens[1:]])
    near = {(row["context"], row["nearest"]) for row in neighbours(*about)}
    assert near == {(shown, f"So {shown}"), (f"So {shown}", shown)}
    for row in neighbours(*about, "--context", "Now I cannot."):
        assert row["context"] == f"Now {shown}"


def neighbours(*arguments):
    return json.loads(run("explore", "word", *arguments, "--json"))


def test_labels_and_number_of_contexts(model, tmp_path):
    vocab, words = spacy.blank("en").vocab, ["A", "bank"]
    docs = [
        Doc(vocab, words=words, tags=["DT", tag], pos=["DET", "NOUN"])
        for tag in ("NN", "NNP", "NNS")
    ]
    DocBin(docs=docs).to_disk(tmp_path / "a.spacy")
    asked = ["explore", "word", model, tmp_path / "a.spacy", "--word", "bank"]
    asked += ["-o", "-"]
    assert '"labels":["NN","NNP","NNS"]' in run(*asked)
    assert '"labels":["NOUN","NOUN","NOUN"]' in run(*asked, "--label", "pos")
    assert '"labels":["NN","NNP"]' in run(*asked, "--max-contexts", 2)
