"""A run that continues the training of a model, and comes back to it."""

import pytest

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.models import read_card
from spacy_elmo.pretrain.loop import pretrain
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.text import Request, prepare

from ..models import tiny_config
from .runs import CONFIG, config, log, without_model


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
