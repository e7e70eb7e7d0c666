"""Give rare words wider vectors in the adaptive softmax of a trained biLM.

    python . widen_softmax MODEL DIV_VALUE OUTPUT

in this folder makes weights to continue the training of. They have the same perplexity:
new columns of the words' vectors are zero, and what projects to them is random.
"""

from pathlib import Path

import torch
import typer

from spacy_elmo.bilm.objectives import AdaptiveSoftmax
from spacy_elmo.models.model_card import read_card
from spacy_elmo.pretrain.model import LanguageModel


@torch.no_grad()
def widen(softmax: AdaptiveSoftmax, div_value: float) -> AdaptiveSoftmax:
    """Return a softmax with the same distributions and wider clusters.

    Raises:
        ValueError: Its clusters are wider already.
    """
    torch.manual_seed(0)
    cutoffs, sizes = softmax.cutoffs, (softmax.width, softmax.n_words)
    wider = AdaptiveSoftmax(*sizes, cutoffs, div_value)
    wider.clusters.head.load_state_dict(softmax.clusters.head.state_dict())
    for old, new in zip(softmax.clusters.tail, wider.clusters.tail):
        (project_KH, words_VK), (to_project, to_words) = (
            list(cluster.parameters()) for cluster in (old, new)
        )
        if len(to_project) < len(project_KH):
            raise ValueError(f"the clusters are wider than with {div_value}")
        to_project[: len(project_KH)] = project_KH
        to_words.zero_()[:, : len(project_KH)] = words_VK
    return wider


def main(
    model: Path = typer.Argument(..., help="Model folder with an adaptive softmax"),
    div_value: float = typer.Argument(..., help="Its clusters' new div_value"),
    output: Path = typer.Argument(..., help="Folder for the changed model"),
) -> None:
    found = LanguageModel.load(model)
    if not isinstance(found.softmax, AdaptiveSoftmax):
        raise ValueError("the model has another softmax")
    softmax = widen(found.softmax, div_value)
    found.bilm.save(output, softmax=softmax, card=read_card(model))


if __name__ == "__main__":
    typer.run(main)
