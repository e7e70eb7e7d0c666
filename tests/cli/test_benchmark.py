"""`spacy elmo benchmark`: every figure is there, and the settings are put back."""

import json

import torch
from spacy.tokens import DocBin

from benchmarks.precision import SCORES, compare_precisions
from benchmarks.speed import precisions

from ..pipelines import examples, trained
from .test_cli import run

FIGURES = ("tokens/s, new words", "tokens/s, known words", "ms a sentence")


def test_benchmark(tiny, tmp_path):
    tiny.save(tmp_path / "model")
    (tmp_path / "text.txt").write_text("The cat sat on the mat.\nThe dog sat.\n" * 30)
    before = torch.get_num_threads()
    asked = ["benchmark", tmp_path / "model", tmp_path / "text.txt", "--rounds", 1]
    asked += ["--threads", 1, "--threads", 2, "--max-tokens", 100]
    found = json.loads(run(*asked, "--json"))
    settings = [(row["threads"], row["precision"]) for row in found["rows"]]
    assert settings == [(n, name) for n in (1, 2) for name in precisions()]
    assert all(row[name] > 0 for row in found["rows"] for name in FIGURES)
    assert torch.get_num_threads() == before
    shown = run(*asked)
    assert all(name in shown for name in FIGURES) and torch.__version__ in shown


def test_benchmark_without_text(tiny, tmp_path):
    tiny.save(tmp_path / "model")
    (tmp_path / "text.txt").write_text("\n")
    asked = ["benchmark", tmp_path / "model", tmp_path / "text.txt"]
    assert "EL033" in run(*asked, fails=True)


def test_precision(tmp_path):
    nlp = trained()
    nlp.to_disk(tmp_path / "pipeline")
    corpus = DocBin(docs=[example.reference for example in examples(nlp)])
    corpus.to_disk(tmp_path / "test.spacy")
    exact, *rest = compare_precisions(tmp_path / "pipeline", tmp_path / "test.spacy")
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
