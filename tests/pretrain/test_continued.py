"""A run that continues the training of a model, and comes back to it."""

import time

import pytest
import spacy

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.models import read_card
from spacy_elmo.pretrain import loggers, results
from spacy_elmo.pretrain.__main__ import run
from spacy_elmo.pretrain.evaluation import perplexity
from spacy_elmo.pretrain.loop import pretrain
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.text import Request, build_corpus, prepare, read_sentences

from ..models import tiny_config
from .runs import CONFIG, config, log, without_model, write_config


def test_init_that_has_another_vocabulary_now(folder):
    """The rows of the softmax would stand for other words."""
    model = pretrain(config(folder), folder / "before")
    overrides = {"training.init": str(model), "training.max_steps": 12}
    continued = config(folder, without_model(CONFIG), overrides)
    pretrain(continued, folder / "out")
    assert pretrain(continued, folder / "out") == folder / "out" / "model-best"
    changed = LanguageModel.load(model)
    first, *others = changed.bilm.vocab[3:]
    changed.bilm.vocab = [*changed.bilm.vocab[:3], *others, first]
    changed.bilm.save(model, softmax=changed.softmax)
    with pytest.raises(ValueError, match=r"EL047.*model-best' has another vocabulary"):
        pretrain(continued, folder / "out")


def test_init_that_is_not_there_is_said_before_the_text_is_read(folder):
    named = config(folder, without_model(CONFIG), {"training.init": "en_elmo"})
    with pytest.raises(FileNotFoundError, match=r"EL001.*en_elmo_sm"):
        pretrain(named, folder / "out")
    assert not any((folder / "out").iterdir())


def test_init_that_has_other_weights_now(folder):
    """A run that is finished is not what would come of them."""
    init = BiLM.random(tiny_config(), seed=1)
    init.save(folder / "init")
    overrides = {"training.init": str(folder / "init"), "training.max_steps": 4}
    continued = config(folder, without_model(CONFIG), overrides)
    pretrain(continued, folder / "out")
    init.save(folder / "init", dtype="float32")  # the same ones
    best = pretrain(continued, folder / "out")
    before = BiLM.load(best).fingerprint()
    BiLM.random(tiny_config(), seed=2).save(folder / "init")
    with pytest.raises(ValueError, match=r"EL047.*init' has other weights now"):
        pretrain(continued, folder / "out")
    assert BiLM.load(best).fingerprint() == before


def test_it_is_measured_before_where_it_is_evaluated_too(folder, tiny):
    """In the card of the model that is saved then."""
    tiny.save(folder / "published", format="bilm-tf")
    overrides = {"training.softmax_first": 20, "training.max_steps": 20}
    overrides["training.init"] = str(folder / "published")
    continued = config(folder, without_model(CONFIG), overrides)
    card = read_card(pretrain(continued, folder / "out"))
    assert card["dev_perplexity_before"] == log(folder / "out")[-1]["dev"]


def test_corpora_of_other_tokenizers_are_told_of(folder):
    """Each is prepared by itself, one with --lang xx; dev decides on models."""
    prepared = folder / "prepared"
    request = Request(lang="xx", tokenizer="spacy", vocab_size=40)
    prepare([folder / "train.txt"], prepared, request, progress=False)
    overrides = {"text.train": [str(prepared)], "training.max_steps": 2}
    with pytest.warns(UserWarning, match=r"ELW56.*train with lang = 'xx', .*dev with"):
        pretrain(config(folder, CONFIG, overrides), folder / "out")


@pytest.fixture
def started(folder):
    """A model with a softmax, which a run has made."""
    return pretrain(config(folder), folder / "before")


def continued_from(folder, model, **training):
    overrides = {"training.init": str(model)}
    overrides |= {f"training.{name}": value for name, value in training.items()}
    return write_config(folder, without_model(CONFIG)), [
        argument
        for name, value in overrides.items()
        for argument in (f"--{name}", str(value))
    ]


@pytest.mark.parametrize("learn_rate", [3.0, 0.001])
def test_the_model_that_a_run_begins_with_is_a_candidate(
    folder, started, capsys, learn_rate
):
    """With a rate that ruins it, and one that improves it."""
    file, overrides = continued_from(folder, started, max_steps=20, eval_every=5)
    overrides += ["--training.optimizer.learn_rate", str(learn_rate)]
    run(file, folder / "out", overwrite=False, overrides=overrides)
    last_line = said_last(capsys)
    best, last = (folder / "out" / name for name in ("model-best", "model-last"))
    card = read_card(best)
    before, after = (
        card[name]["mean"] for name in ("dev_perplexity_before", "dev_perplexity")
    )
    measured = perplexity(
        LanguageModel.load(best), build_dev(folder, LanguageModel.load(best))
    )
    assert measured.mean == pytest.approx(after, rel=1e-3)
    if learn_rate == 3.0:
        assert after == before < read_card(last)["dev_perplexity"]["mean"]
        assert card["tokens_seen"] == 0
        assert BiLM.load(best).fingerprint() == BiLM.load(started).fingerprint()
        assert "no better" in last_line and str(best) in last_line
        nlp = spacy.blank("en")
        nlp.add_pipe("elmo", config={"weights": str(best)})
        nlp("a")
        init = {"weights": "before/model-best", "version": None}
        found = {"weights": "out/model-best", "version": None, "started_from": init}
        assert nlp.meta["elmo"] == {"elmo": found}
    else:
        assert after < before
        assert f"{after:.2f}, better than {before:.2f}" in last_line
    run(file, folder / "out", overwrite=False, overrides=overrides)  # it is finished
    assert said_last(capsys) == last_line


def said_last(capsys) -> str:
    """The last message, on one line."""
    return " ".join(capsys.readouterr().out.rpartition("The best")[2].split())


def build_dev(folder, model):
    read = read_sentences([folder / "dev.txt"], lang="en", tokenizer="whitespace")
    return build_corpus(read, vocab=model.bilm.vocab)


def test_measuring_before_the_first_step_is_not_a_step(folder, started, monkeypatch):
    """Neither in the time left nor in the speed of the first line."""
    monkeypatch.setattr(results, "perplexity", slow_perplexity)
    bars = []

    class Bar(loggers.tqdm):
        def close(self):
            bars.append(self.format_dict["elapsed"])
            super().close()

    monkeypatch.setattr(loggers, "tqdm", Bar)
    file, overrides = continued_from(folder, started, max_steps=5, log_every=1)
    started_at = time.monotonic()
    run(file, folder / "out", overwrite=False, overrides=overrides)
    assert time.monotonic() - started_at > SLOW
    assert bars[0] < SLOW
    first, *_ = log(folder / "out")
    assert first["tokens_per_second"] > 24 / SLOW


SLOW = 4.0  # seconds


def slow_perplexity(*arguments, **options):
    time.sleep(SLOW)
    return perplexity(*arguments, **options)
