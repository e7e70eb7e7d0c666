"""Whole runs: that they learn, what they leave behind, where they start from."""

import pytest
import torch

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.kernels import plan
from spacy_elmo.models import read_card
from spacy_elmo.pretrain import loop, perplexity
from spacy_elmo.pretrain.loop import pretrain
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.text.corpus import build_corpus

from ..models import tiny_config
from .runs import (
    ADAPTIVE,
    CONFIG,
    SAMPLED,
    config,
    log,
    prepare_text,
    without_model,
)

LONG = CONFIG.replace("epochs = 3", "epochs = 5").replace("0.01", "0.03")


def going_on(folder, init, text=CONFIG, overrides=None, **sections):
    overrides = {"training.init": str(init), **(overrides or {})}
    return config(folder, without_model(text), overrides, **sections)


@pytest.mark.parametrize(
    "objective",
    [
        ADAPTIVE,
        *(pytest.param(other, marks=pytest.mark.slow) for other in ({}, SAMPLED)),
    ],
    ids=["adaptive", "full", "sampled"],
)
def test_a_run_learns_and_leaves_models_cards_and_a_log(folder, objective):
    out = folder / "out"
    best = pretrain(config(folder, LONG, **objective), out, command="the command")
    rows = [row for row in log(out) if "dev" in row]
    assert rows[-1]["dev"]["mean"] < rows[0]["dev"]["mean"] < 12
    assert min(row["dev"]["mean"] for row in rows) < 3
    assert {row["step"] for row in log(out)} >= set(range(5, rows[-1]["step"], 5))
    for model_folder in (best, out / "model-last"):
        assert sorted(path.name for path in model_folder.iterdir()) == [
            "card.json",
            "config.json",
            "softmax.safetensors",
            "vocab.txt",
            "weights.safetensors",
        ]
    card = read_card(best)
    model = LanguageModel.load(best)
    assert card["fingerprint"] == model.bilm.fingerprint()
    assert card["command"] == "the command"
    assert card["parameters"] == model.bilm.n_parameters
    lines = [line.split() for line in (folder / "dev.txt").open()]
    found = perplexity(model, build_corpus(lines, vocab=model.bilm.vocab))
    assert found.mean == pytest.approx(card["dev_perplexity"]["mean"], rel=1e-4)
    assert found.mean == pytest.approx(min(r["dev"]["mean"] for r in rows), rel=1e-4)


def test_low_precision_learns(folder, monkeypatch):
    """Where it does not pay, it is refused; here it is to learn in any case."""
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    with pytest.raises(ValueError, match=r"EL077.*bfloat16"):
        pretrain(config(folder, LONG, {"training.precision": "bfloat16"}), folder / "x")
    monkeypatch.setattr(loop, "check_training_precision", lambda *_: None)
    overrides = {"training.precision": "bfloat16"}
    pretrain(config(folder, LONG, overrides), folder / "out")
    assert min(r["dev"]["mean"] for r in log(folder / "out") if "dev" in r) < 3


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_nothing_of_the_process_is_left_changed(folder, monkeypatch, precision):
    """Threads, precision of matrix multiplications, random numbers. A processor for
    which the precision is set, whatever this one is."""
    monkeypatch.setattr(plan, "instructions", lambda: "avx512")
    monkeypatch.setattr(loop, "check_training_precision", lambda *_: None)
    overrides = {"training.precision": precision, "training.max_steps": 3}
    torch.set_num_threads(2)
    try:
        torch.manual_seed(7)
        expected = torch.rand(1)
        torch.manual_seed(7)
        pretrain(config(folder, overrides=overrides), folder / "out")
        assert torch.get_num_threads() == 2
        assert torch.get_float32_matmul_precision() == "highest"
        assert torch.equal(torch.rand(1), expected)
        with pytest.raises(ValueError, match="EL037"):
            pretrain(config(folder, overrides={"text.also": {"dev": []}}), folder / "x")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


@pytest.mark.slow
def test_same_seed_same_weights(folder):
    runs = [
        pretrain(config(folder, overrides={"training.seed": seed}), folder / str(n))
        for n, seed in enumerate((1, 1, 2))
    ]
    prints = [BiLM.load(run).fingerprint() for run in runs]
    assert prints[0] == prints[1] != prints[2]


def test_text_prepared_before_gives_the_same_model(folder):
    prepared = prepare_text(folder)
    runs = [
        pretrain(config(folder, overrides=overrides), folder / f"out{n}")
        for n, overrides in enumerate((None, prepared))
    ]
    assert BiLM.load(runs[0]).fingerprint() == BiLM.load(runs[1]).fingerprint()
    assert not (folder / "out1" / "text").exists()
    both = config(folder, overrides={"text.train": [str(folder)]})
    with pytest.raises(ValueError, match="EL230"):
        pretrain(both, folder / "out2")


def test_exported_weights_give_the_same_layers(folder):
    bilm = BiLM.load(pretrain(config(folder), folder / "out"))
    bilm.save(folder / "exported", format="bilm-tf")
    sentences = [["the", "cat", "고양이"], ["end"]]
    back = BiLM.load(folder / "exported")
    for ours, theirs in zip(bilm.encode(sentences), back.encode(sentences)):
        assert abs(ours - theirs).max() < 1e-6
    assert (folder / "exported" / "vocab.txt").read_text().split("\n")[
        :-1
    ] == bilm.vocab


# -- from a model on --------------------------------------------------------------


def test_goes_on_from_a_model_with_its_softmax(folder):
    first = pretrain(config(folder), folder / "first")
    best = pretrain(going_on(folder, first), folder / "second")
    card = read_card(best)
    before = read_card(first)["dev_perplexity"]["mean"]
    assert card["dev_perplexity_before"]["mean"] == pytest.approx(before, rel=1e-4)
    assert card["dev_perplexity"]["mean"] < before
    assert LanguageModel.load(best).bilm.vocab == LanguageModel.load(first).bilm.vocab


@pytest.mark.slow
def test_full_softmax_goes_on_as_a_sampled_one_but_not_as_an_adaptive_one(folder):
    first = pretrain(config(folder), folder / "first")
    best = pretrain(going_on(folder, first, **SAMPLED), folder / "second")
    before = read_card(first)["dev_perplexity"]["mean"]
    assert read_card(best)["dev_perplexity"]["mean"] < before
    with pytest.raises(ValueError, match=r"EL037.*full softmax.*new_softmax"):
        pretrain(going_on(folder, first, **ADAPTIVE), folder / "third")
    anew = {"training.new_softmax": True}
    pretrain(going_on(folder, first, overrides=anew, **ADAPTIVE), folder / "third")


def test_new_softmax_is_trained_alone_first(folder, tiny):
    """The biLM does not move meanwhile; its perplexity before is what it is then."""
    tiny.save(folder / "published", format="bilm-tf")
    overrides = {"training.softmax_first": 40, "training.max_steps": 40}
    frozen = going_on(folder, folder / "published", LONG, overrides)
    model = LanguageModel.load(pretrain(frozen, folder / "frozen"))
    for name, array in tiny.state_dict().items():
        assert torch.equal(array, model.bilm.state_dict()[name])
    overrides["training.max_steps"] = 200
    tuned = going_on(folder, folder / "published", LONG, overrides)
    card = read_card(pretrain(tuned, folder / "tuned"))
    at_40 = next(row for row in log(folder / "tuned") if row["step"] == 40)
    assert card["dev_perplexity_before"] == at_40["dev"]
    assert card["dev_perplexity"]["mean"] < at_40["dev"]["mean"]


def test_goes_on_from_published_weights_with_a_new_softmax(folder, tiny):
    tiny.save(folder / "published", format="bilm-tf")
    best = pretrain(going_on(folder, folder / "published"), folder / "out")
    model = LanguageModel.load(best)
    assert model.bilm.config == tiny.config and model.bilm.vocab[3] == "the"
    with pytest.raises(ValueError, match="EL036"):
        LanguageModel.load(folder / "published")


@pytest.mark.slow
def test_other_texts_are_measured_before_and_after(folder, capsys):
    """What is forgotten of a general text, say."""
    (folder / "general.txt").write_text("a cat and a dog sat\n" * 9)
    first = pretrain(config(folder), folder / "first")
    also = {"text.also": {"general": [str(folder / "general.txt")]}}
    best = pretrain(going_on(folder, first, overrides=also), folder / "second")
    model, vocab = LanguageModel.load(first), LanguageModel.load(first).bilm.vocab
    text = build_corpus([["a", "cat", "and", "a", "dog", "sat"]] * 9, vocab=vocab)
    found = read_card(best)["also"]["general"]
    assert found["before"]["mean"] == pytest.approx(
        perplexity(model, text).mean, rel=1e-4
    )
    after = perplexity(LanguageModel.load(best), text).mean
    assert found["after"]["mean"] == pytest.approx(after, rel=1e-4)
    out = capsys.readouterr().out
    assert f"{after:.2f}" in out and "before" in out


def test_published_table_of_words_gets_no_new_softmax(folder):
    bilm = BiLM.random(tiny_config(n_words=5), vocab=list("abcde"))
    bilm.save(folder / "words", format="bilm-tf")
    with pytest.raises(ValueError, match="EL037"):
        pretrain(going_on(folder, folder / "words"), folder / "out")


@pytest.mark.parametrize(
    "file",
    [
        "",
        *(
            pytest.param(x, marks=pytest.mark.slow)
            for x in ("config.json", "weights.safetensors")
        ),
    ],
)
def test_a_run_does_not_overwrite_what_it_starts_from(folder, file):
    first = pretrain(config(folder), folder / "out")
    before = (first / "weights.safetensors").read_bytes()
    with pytest.raises(ValueError, match=r"EL037.*overwrite"):
        pretrain(going_on(folder, first / file), folder / "out", overwrite=True)
    assert (first / "weights.safetensors").read_bytes() == before


def test_prepared_text_has_the_vocabulary_it_was_prepared_with(folder):
    files = prepare_text(folder, vocab_size=7)
    for size, expected in ((None, 7), (5, 5), (9, 9)):
        overrides = {**files, "vocab.size": size, "training.max_steps": 2}
        best = pretrain(config(folder, overrides=overrides), folder / f"out{size}")
        assert len(BiLM.load(best).vocab) == expected
