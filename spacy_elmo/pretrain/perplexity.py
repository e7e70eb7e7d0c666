"""Perplexity of held-out text, over the whole vocabulary."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from tqdm import tqdm

from .corpus import Corpus, Streams
from .model import LanguageModel


@dataclass(frozen=True)
class Perplexity:
    """Perplexities of a text. A token's end of sentence counts, its beginning doesn't.

    mean: exp of the mean loss of both directions, which is what the two share.
    """

    forward: float
    backward: float
    mean: float
    tokens: int
    coverage: float

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


@torch.no_grad()
def perplexity(
    model: LanguageModel,
    corpus: Corpus,
    *,
    batch_size: int = 16,
    unroll_steps: int = 50,
    progress: bool = False,
) -> Perplexity:
    """Read a corpus in streams with carried state, as in training.

    corpus: numbered by the model's vocabulary. Raises ValueError [EL035].
    """
    was_training = model.training
    model.eval()
    batch_size = max(1, min(batch_size, (len(corpus.ids) - 1) // unroll_steps))
    streams = Streams(corpus, batch_size, unroll_steps)
    state = model.bilm.zero_state(batch_size)
    losses, counts = [0.0, 0.0], [0, 0]
    for window in tqdm(streams, desc="perplexity", leave=False, disable=not progress):
        log_ps, state = model(window, corpus.words, state)
        for direction, log_p in enumerate(log_ps):
            losses[direction] -= float(log_p.double().sum())
            counts[direction] += len(log_p)
    model.train(was_training)
    return Perplexity(
        forward=_exp(losses[:1], counts[:1]),
        backward=_exp(losses[1:], counts[1:]),
        mean=_exp(losses, counts),
        tokens=corpus.n_tokens,
        coverage=corpus.coverage,
    )


def _exp(losses: Sequence[float], counts: Sequence[int]) -> float:
    loss = sum(losses) / max(1, sum(counts))
    return math.exp(loss) if loss < 700 else math.inf
