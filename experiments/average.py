"""Average the weights of a biLM and of what its training continued from.

    python . average EARLIER LATER TEXT OUTPUT

in this folder. Where the learning rate of each part of a training has fallen to
nothing, a mean of the weights can be better than either end (stochastic weight
averaging, Izmailov et al. 2018). The share of the later weights is the one of SHARES
with the lowest perplexity on the text, which should be a development set.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import typer
from wasabi import msg

from spacy_elmo import BiLM
from spacy_elmo.models import read_card
from spacy_elmo.pretrain import perplexity
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.text.shards import open_corpus

SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)


@torch.no_grad()
def average(
    models: Sequence[LanguageModel], shares: Sequence[float] | None = None
) -> LanguageModel:
    """Give the first model the mean of the weights of all, and return it. The shares
    are equal unless they are given, and should sum to one.

    Raises:
        ValueError: The models have different settings, vocabularies or softmaxes.
    """
    first = models[0]
    if any(_kind(model) != _kind(first) for model in models):
        raise ValueError("the biLMs have other settings, words or softmaxes")
    shares = shares or [1 / len(models)] * len(models)
    weights = [model.state_dict() for model in models]
    for name, weight in weights[0].items():
        parts = [share * of[name].double() for share, of in zip(shares, weights)]
        weight.copy_(torch.stack(parts).sum(0))
    return first


def _kind(model: LanguageModel) -> tuple[Any, ...]:
    shapes = {name: of.shape for name, of in model.state_dict().items()}
    return model.bilm.config, model.bilm.vocab, type(model.softmax), shapes


def main(
    earlier: Path = typer.Argument(..., help="Model folder the training began with"),
    later: Path = typer.Argument(..., help="Model folder that it came to"),
    text: Path = typer.Argument(..., help="Prepared text the share is chosen on"),
    output: Path = typer.Argument(..., help="Folder for the mean"),
) -> None:
    corpus = open_corpus(text).with_vocab(LanguageModel.load(later).bilm.vocab or [])

    def mean(share: float) -> LanguageModel:
        models = [LanguageModel.load(later), LanguageModel.load(earlier)]
        return average(models, [share, 1 - share])

    found = {}
    for share in SHARES:
        found[share] = perplexity(mean(share), corpus, progress=True)
        msg.info(f"{share:.0%} of the later weights: perplexity {found[share]}")
    best = min(found, key=lambda share: found[share].mean)
    msg.good(f"{output}: {best:.0%} of the later weights")
    card = dict(read_card(later) or {}) | {"dev_perplexity": found[best].to_dict()}
    shares = {later: best, earlier: round(1 - best, 2)}
    command = f"python . average {earlier} {later} {text} {output}"
    card["command"] = "\n".join([card.get("command", ""), command]).strip()
    card["mean_of"] = {BiLM.load(of).fingerprint(): shares[of] for of in shares}
    model = mean(best)
    model.bilm.save(output, dtype="float16", softmax=model.softmax, card=card)


if __name__ == "__main__":
    typer.run(main)
