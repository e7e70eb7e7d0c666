"""Perplexity of held-out text, over the whole vocabulary. The CPU waits for a GPU once,
at the end."""

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass

import numpy as np
import torch
from tqdm import tqdm

from ..bilm import word_to_bytes
from ..machine import default_settings
from ..text import BOS_ID, EOS_ID, SPECIALS, UNK_ID, Corpus, Streams
from .model import LanguageModel, on_device

# Streams that a text is measured in, on every device. Each begins with zeros, so the
# figure depends on their number.
STREAMS = 16
END = 256  # stands before the first and after the last byte of a word


@dataclass(frozen=True)
class Perplexity:
    """Perplexities of a text. The end of each sentence is predicted, its beginning is
    not.

    Attributes:
        forward: Perplexity of the forward direction.
        backward: Perplexity of the backward direction.
        mean: exp of the mean loss of both.
        bits_per_character: Mean loss of both in bits, with the spelling of unknown
            words, over the Unicode characters of the text: tokens, one space after
            each, one for the end of each sentence. It compares models with different
            vocabularies.
        spelling_bits: The part of these bits that spells unknown words. The model does
            not compute it.
        tokens: Number of tokens.
        coverage: Share of the tokens that are in the vocabulary.
    """

    forward: float
    backward: float
    mean: float
    bits_per_character: float
    spelling_bits: float
    tokens: int
    coverage: float

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
    """Return the perplexity of a corpus, in the vocabulary and Unicode form of a model.

    The corpus is read in streams with carried state, as in training.

    Args:
        model: The model.
        corpus: The corpus.
        batch_size: Number of streams; a short corpus has fewer.
        unroll_steps: Tokens of each stream that are read at once.
        progress: Whether to show a bar.

    Raises:
        ValueError: [EL035] The corpus is too short.
    """
    corpus = corpus.in_form(model.bilm.form)
    batch_size = max(1, min(batch_size, (len(corpus.forward) - 1) // unroll_steps))
    streams = Streams(corpus, model.bilm, batch_size, unroll_steps)
    state = model.bilm.zero_state(batch_size)
    device, counts = model.bilm.device, [0, 0]
    sums = torch.zeros(2, dtype=torch.float64, device=device)
    shown = {"desc": "perplexity", "leave": False, "disable": not progress}
    with ExitStack() as scope:
        scope.callback(model.train, model.training)  # as it was
        model.eval()
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
    """The probability of spelling words that a vocabulary does not have.

    Perplexities over different vocabularies can't be compared: a small vocabulary has
    <UNK> for the hard words, which is easy to predict. Bits per character can be, if
    the spelling of an unknown word is predicted, too. Each byte is predicted from the
    one before, with counts from the words of the vocabulary, each word once, plus one
    half (Krichevsky and Trofimov 1981).
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
