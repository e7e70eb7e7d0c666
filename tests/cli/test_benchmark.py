"""`spacy elmo benchmark`: every figure is there, and the settings are put back."""

import json
import re

import pytest
import spacy
import torch
from spacy.tokens import DocBin, Span
from typer.testing import CliRunner

from spacy_elmo.bilm.kernels import describe_library
from spacy_elmo.cli import app, speed_limits
from spacy_elmo.cli.benchmark import SCORES
from spacy_elmo.cli.speed import in_turn, precisions
from spacy_elmo.machine.processor import INSTRUCTIONS

from ..models import tiny_config
from ..pipelines import examples, trained


def run(*args, fails=False):
    arguments = ["benchmark", *(str(arg) for arg in args)]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert (result.exit_code != 0) is fails, result.output
    return result.stdout


def test_inference(tiny, tmp_path):
    tiny.save(tmp_path / "model")
    (tmp_path / "text.txt").write_text("The cat sat on the mat.\nThe dog sat.\n" * 30)
    prepare = ["prepare", tmp_path / "text.txt", "--output", tmp_path / "prepared"]
    CliRunner().invoke(app, [str(arg) for arg in prepare])
    before = torch.get_num_threads()
    settings = ["--model", tmp_path / "model", "--tokens", 100, "--rounds", 1]
    settings += ["--batch-size", 1, "--batch-size", 8, "--threads", 1]
    for text in ([], [tmp_path / "prepared"]):
        found = json.loads(run("inference", *text, *settings, "--json"))
        kinds = {"cold", "warm", *precisions()[1:]}
        assert [row["batch"] for row in found["tokens/s"]] == [1, 8]
        assert all(row[kind] > 0 for row in found["tokens/s"] for kind in kinds)
        for row in found["tokens/s"]:
            assert all(row[f"{kind}, share"] > 0 for kind in kinds - {"warm"})
        (peaks,) = found["GFLOP/s of large multiplications, one thread"]
        assert list(peaks) == precisions() and min(peaks.values()) > 0
        (chosen,) = found["to choose"]
        assert chosen["throughput, float32"] == "float32, 1 threads"
        assert chosen["one sentence"].split(",")[0] in precisions()
        (processor,) = found["instructions"]
        assert processor["torch"] in INSTRUCTIONS
        assert processor["library"] == describe_library()[0]
        (row,) = found["milliseconds of 20 tokens"]
        assert all(row[f"{kind}, floor"] > 0 for kind in kinds)
        assert row["cold, floor"] > row["warm, floor"]
        few = found["milliseconds of a few sentences"]
        assert [row["sentences"] for row in few] == [1, 2, 4, 8, 16]
        assert all(row[kind] > 0 for row in few for kind in kinds)
        assert all(0 < row[kind] <= row[f"{kind}, p95"] for kind in kinds)
    assert torch.get_num_threads() == before
    assert "warm, p95" in run("inference", *settings)
    assert "EL001" in run("inference", "--model", "huge", fails=True)


def test_what_a_sentence_takes_at_least_is_of_one_thread(monkeypatch):
    """Whatever number of threads the process has."""
    threads = []

    def noted(runs, rounds):
        threads.append(torch.get_num_threads())
        return in_turn(runs, rounds)

    monkeypatch.setattr(speed_limits, "in_turn", noted)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        floors = speed_limits.sentence_floors(tiny_config(), ["a"], {"float32": 1e9})
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert threads == [1] and floors["cold"] > floors["warm"] > 0


def test_precision(tmp_path):
    nlp = trained()
    nlp.to_disk(tmp_path / "pipeline")
    corpus = DocBin(docs=[example.reference for example in examples(nlp)])
    corpus.to_disk(tmp_path / "test.spacy")
    both = [tmp_path / "pipeline", tmp_path / "test.spacy"]
    exact, *rest = json.loads(run("precision", *both, "--json"))["precision"]
    scores = nlp.evaluate(examples(nlp))
    assert exact == {
        "precision": "float32",
        "mean error": 0,
        "largest error": 0,
        **{name: scores[name] for name in SCORES if scores.get(name) is not None},
    }
    for row in rest:
        assert 0 < row["mean error"] < row["largest error"] < 0.2
    assert [row["precision"] for row in rest] == precisions()[1:]


def test_precision_of_what_can_not_be_compared(tmp_path):
    """The component can have any name, but it must be there, and there must be text."""
    nlp = trained()
    DocBin(docs=[nlp.make_doc("")]).to_disk(tmp_path / "empty.spacy")
    DocBin(docs=[examples(nlp)[0].reference]).to_disk(tmp_path / "test.spacy")
    nlp.to_disk(tmp_path / "pipeline")
    nlp.remove_pipe("elmo")
    nlp.to_disk(tmp_path / "none")
    both = [tmp_path / "pipeline", tmp_path / "empty.spacy"]
    assert "EL033" in run("precision", *both, fails=True)
    both = [tmp_path / "none", tmp_path / "test.spacy"]
    assert "EL215" in run("precision", *both, fails=True)


def test_a_score_of_nothing_is_shown(tmp_path):
    trained().to_disk(tmp_path / "pipeline")
    doc = examples(spacy.blank("en"))[0].reference
    doc.ents = [Span(doc, 0, 1, "NEVER_SEEN")]
    DocBin(docs=[doc]).to_disk(tmp_path / "test.spacy")
    both = [tmp_path / "pipeline", tmp_path / "test.spacy"]
    for row in json.loads(run("precision", *both, "--json"))["precision"]:
        assert row["ents_f"] == 0


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--device", "foo"], "EL073.*foo.*cuda"),
        (["--device", "cuda:99"], "EL151"),
        (["--device", "cuda:-1"], "EL073"),
        (["--tokens", "19"], "20"),
        (["--threads", "0"], "1"),
        (["--rounds", "0"], "1"),
        (["--batch-size", "0"], "1"),
    ],
)
def test_options_that_can_not_be(option, said):
    arguments = ["benchmark", "inference", "--size", "small", *option]
    found = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert found.exit_code != 0 and re.search(said, found.output)


def test_all_have_their_turn():
    order = []

    def take(name):
        return lambda: float(order.append(name) or 1)

    in_turn({"a": take("a"), "b": take("b")}, 3)
    assert order == ["a", "b"] * 4  # the first of each is not counted
