"""Perplexity of held-out text, over the whole vocabulary. A GPU is waited for once, at
the end."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from tqdm import tqdm

from ..bilm import word_to_bytes
from ..machine import default_settings
from ..text import BOS_ID, EOS_ID, SPECIALS, UNK_ID, Corpus, Streams
from .model import LanguageModel, evaluating, on_device

# Streams that a text is measured in, on every device: each begins with zeros, so that
# the figure depends on their number.
STREAMS = 16
END = 256  # of a word's bytes, and their beginning


@dataclass(frozen=True)
class Perplexity:
    """Perplexities of a text. The end of each sentence is predicted, its beginning is
    not. `mean` is exp of the mean loss of both directions; `bits_per_character` this
    loss, the spelling of unknown words included, over the text's Unicode characters
    (tokens, one space after each, and one for the end of each sentence), to compare
    models with different vocabularies; `spelling_bits` is that of unknown words alone,
    which the model does not compute.
    """

    forward: float
    backward: float
    mean: float
    bits_per_character: float
    spelling_bits: float
    tokens: int
    coverage: float  # share of the tokens that are in the vocabulary

    def to_dict(self) -> dict[str, float]:
        """Return the figures by name."""
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"{self.mean:.2f} (forward {self.forward:.2f}, backward "
            f"{self.backward:.2f}; {self.bits_per_character:.3f} bits per character)"
        )


@default_settings(matmul=False)
def perplexity(
    model: LanguageModel,
    corpus: Corpus,
    *,
    batch_size: int = STREAMS,
    unroll_steps: int = 50,
    progress: bool = False,
) -> Perplexity:
    """Return the perplexity of a corpus in the model's vocabulary and Unicode form. It
    is read in streams with carried state, as in training: in batch_size of them, or
    fewer if it is short. Raises ValueError [EL035] if it is too short."""
    corpus = corpus.in_form(model.bilm.form)
    batch_size = max(1, min(batch_size, (len(corpus.forward) - 1) // unroll_steps))
    streams = Streams(corpus, model.bilm, batch_size, unroll_steps)
    state = model.bilm.zero_state(batch_size)
    device, counts = model.bilm.device, [0, 0]
    sums = torch.zeros(2, dtype=torch.float64, device=device)
    shown = {"desc": "perplexity", "leave": False, "disable": not progress}
    with evaluating(model):
        for number in tqdm(range(len(streams)), **shown):
            numbers = streams.batch(number)
            targets = [numbers.forward.target_P, numbers.backward.target_P]
            known = model.softmax.prepare(np.concatenate(targets), device)
            batch = on_device(numbers, device)
            top_PH, state = model.read(batch, state)
            parts = model.log_p(top_PH, batch, known).tensor_split([len(targets[0])])
            for direction, log_p in enumerate(parts):
                sums[direction] -= log_p.double().sum()
                counts[direction] += len(log_p)
    losses = sums.tolist()
    characters, spelling = _spelling(corpus)
    bits = sum(losses) / 2 / math.log(2)
    return Perplexity(
        forward=_exp(losses[0] / max(1, counts[0])),
        backward=_exp(losses[1] / max(1, counts[1])),
        mean=_exp(sum(losses) / max(1, sum(counts))),
        bits_per_character=(bits + spelling) / characters,
        spelling_bits=spelling / characters,
        tokens=corpus.n_tokens,
        coverage=corpus.coverage,
    )


def _exp(loss: float) -> float:
    return math.exp(loss) if loss < 700 else math.inf


def _spelling(corpus: Corpus) -> tuple[int, float]:
    """Return the characters of a text, and the bits of its unknown words."""
    spelling = Spelling(corpus.vocab)
    bits, characters = 0.0, 0
    unknown_V = corpus.target_V == UNK_ID
    for i in np.flatnonzero(corpus.counts_V):
        word, count = corpus.words[i], int(corpus.counts_V[i])
        if i == EOS_ID:
            characters += count
        elif i != BOS_ID:
            characters += count * (len(word) + 1)
            bits += count * spelling.bits(word) if unknown_V[i] else 0
    return max(1, characters), bits


class Spelling:
    """The probability of the spelling of words that a vocabulary does not have.

    Perplexities over different vocabularies can't be compared: the smaller one predicts
    <UNK> for the hard words, which is easy. Bits per character can, if an unknown word
    is scored with the probability of its spelling as well: byte by byte, each predicted
    from the one before, with counts from the words of the vocabulary, each word once,
    plus one half (Krichevsky and Trofimov 1981).
    """

    def __init__(self, vocab: Sequence[str]) -> None:
        counts = np.full((257, 257), 0.5)  # of a byte after a byte
        for word in vocab[len(SPECIALS) :]:
            np.add.at(counts, _pairs(word), 1)
        self.bits_of_pairs = -np.log2(counts / counts.sum(1, keepdims=True))

    def bits(self, word: str) -> float:
        """Return -log2 of the probability of a word's spelling."""
        return float(self.bits_of_pairs[_pairs(word)].sum())


def _pairs(word: str) -> tuple[list[int], list[int]]:
    text = list(word_to_bytes(word))
    return [END, *text], [*text, END]
