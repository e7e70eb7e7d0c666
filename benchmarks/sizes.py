"""The published sizes, and text to measure them on."""

import numpy as np

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.words import encode_words
from spacy_elmo.text.corpus import (
    BOS_ID,
    EOS_ID,
    MAX_CHARACTERS,
    SPECIALS,
    Corpus,
    RunningText,
    reverse_sentences,
)

FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


def published(hidden_dim: int, projection_dim: int, n_highway: int) -> BiLMConfig:
    return BiLMConfig(
        hidden_dim=hidden_dim,
        projection_dim=projection_dim,
        n_highway=n_highway,
        char_dim=16,
        filters=FILTERS,
        cell_clip=3.0,
        proj_clip=3.0,
    )


SIZES = {
    "tiny": BiLMConfig(hidden_dim=64, projection_dim=32, filters=((1, 16), (3, 48))),
    "small": published(1024, 128, 1),
    "medium": published(2048, 256, 1),
    "original": published(4096, 512, 2),
}


def zipf_text(n_words: int, n_tokens: int, seed: int = 0) -> Corpus:
    """Made-up text whose words are as frequent, as long and as often new as in English:
    log-uniform in their rank, frequent ones short, 20 to a sentence."""
    rng = np.random.default_rng(seed)
    n_own = n_words - len(SPECIALS)
    lengths = np.clip(rng.normal(3.0 + 0.9 * np.log10(np.arange(n_own) + 1), 2), 1, 20)
    letters = rng.integers(97, 123, int(lengths.astype(int).sum()), dtype=np.uint8)
    ends = np.cumsum(lengths.astype(int))
    text = letters.tobytes().decode()
    words = [text[end - int(n) : end] for end, n in zip(ends, lengths.astype(int))]
    rank = np.exp(rng.random(n_tokens) * np.log(n_own + 1)).astype(np.int64) - 1
    ids = np.minimum(rank, n_own - 1).astype(np.int32) + len(SPECIALS)
    ids[::22], ids[21::22] = BOS_ID, EOS_ID
    ids = ids[: n_tokens - n_tokens % 22]
    names = [*SPECIALS, *words]
    return Corpus(
        words=names,
        counts_V=np.bincount(ids, minlength=n_words),
        characters_VC=encode_words(names, MAX_CHARACTERS).astype(np.uint16),
        vocab=names,
        target_V=np.arange(n_words, dtype=np.int32),
        forward=RunningText([ids]),
        backward=RunningText([reverse_sentences(ids)]),
    )
