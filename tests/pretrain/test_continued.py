"""A run that continues the training of a model, and comes back to it."""

import pytest

from spacy_elmo.pretrain.loop import pretrain
from spacy_elmo.pretrain.model import LanguageModel

from .runs import CONFIG, config, without_model


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
