"""Means of the weights of several biLMs."""

import numpy as np
import pytest
import torch

from experiments.average import SHARES, average, main
from spacy_elmo import BiLM
from spacy_elmo.bilm.objectives import FullSoftmax
from spacy_elmo.models import find, read_card
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.text import Request, prepare

from ..models import SENTENCES, tiny_config


def tiny(seed, n_words=9, **settings):
    torch.manual_seed(seed)
    config = tiny_config(hidden_dim=8, projection_dim=4, **settings)
    return LanguageModel(BiLM.random(config, seed=seed), FullSoftmax(4, n_words))


@pytest.mark.parametrize("shares", [None, [0.5, 0.125, 0.375]])
def test_an_average_is_of_all_weights(shares):
    """Those of the softmax, too."""
    models = [tiny(seed) for seed in (0, 1, 2)]
    states = [
        {name: weight.clone() for name, weight in model.state_dict().items()}
        for model in models
    ]
    found = average(models, shares).state_dict()
    assert any("softmax" in name for name in found) and len(found) > 10
    for name, weight in found.items():
        parts = zip(shares or [1 / 3] * 3, states)
        expected = sum(share * state[name] for share, state in parts)
        torch.testing.assert_close(weight, expected)


@pytest.mark.parametrize("other", [{"n_words": 10}, {"activation": "tanh"}])
def test_other_biLMs_have_no_average(other):
    with pytest.raises(ValueError, match="other settings"):
        average([tiny(0), tiny(0, **other)])


@pytest.mark.slow
def test_the_share_with_the_lowest_perplexity_is_written(tmp_path):
    """Of two models that are as far from a good one, in opposite directions."""
    text = tmp_path / "text.txt"
    text.write_text("".join(" ".join(s) + "\n" for s in SENTENCES), encoding="utf-8")
    prepare([text], tmp_path / "prepared", Request(lang="xx"), progress=False)
    folder = find("en_elmo_sm")
    good = LanguageModel.load(folder)
    torch.manual_seed(0)
    noise = [torch.randn_like(weight) * 0.4 for weight in good.parameters()]
    for name, sign in (("earlier", 1), ("later", -1)):
        model = LanguageModel.load(folder)
        with torch.no_grad():
            for weight, difference in zip(model.parameters(), noise):
                weight.add_(sign * difference)
        card = read_card(folder)
        model.bilm.save(tmp_path / name, softmax=model.softmax, card=card)
    names = ("earlier", "later", "prepared", "mean")
    main(*(tmp_path / name for name in names))
    mean = LanguageModel.load(tmp_path / "mean")
    for weight, expected in zip(mean.parameters(), good.parameters()):
        np.testing.assert_allclose(
            weight.detach(), expected.detach(), atol=1e-3, rtol=1e-3
        )
    card = read_card(tmp_path / "mean")
    assert list(card["mean_of"].values()) == [0.5, 0.5] and 0.5 in SHARES
    earlier = LanguageModel.load(tmp_path / "earlier").bilm
    assert earlier.fingerprint() in card["mean_of"]
    assert card["command"].startswith(
        read_card(folder)["command"] + "\npython . average"
    )
    assert card["tokens_seen"] == read_card(folder)["tokens_seen"]
