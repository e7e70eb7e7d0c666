"""A biLM as it is stored in files, between a format and the model, and its checks."""

import hashlib
import json
import re
import warnings
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...errors import Errors, Warnings
from ..arrays import check_arrays
from ..config import BiLMConfig
from ..model import BidirectionalLM
from ..words import FORMS, MARKS, UNK, UnicodeForm

DTYPES = {"float32": torch.float32, "float16": torch.float16}


class Mix(NamedTuple):
    """A trained mix of layers (paper, equation 1).

    Attributes:
        weights: Weights s_j of the layers before the softmax, the token layer first.
        gamma: Scale.
    """

    weights: tuple[float, ...]
    gamma: float


@dataclass(frozen=True)
class StoredBiLM:
    """The sizes, words and arrays of a biLM.

    Attributes:
        config: The sizes.
        vocab: The words of the softmax or of the word embedding, if they are known.
        alphabet: The characters and marks of a model that does not read bytes.
        arrays: The parameters by their names in the state dict of the model.
        mix: The mix of layers that was trained with the model, if there is one. Layers
            do not depend on it, so the fingerprint does not either.
        form: The Unicode form of all text of the training, if there was one.
        recorded_fingerprint: The fingerprint that its files say, if they say one.
    """

    config: BiLMConfig
    vocab: list[str] | None
    alphabet: list[str] | None
    arrays: dict[str, Tensor]
    mix: Mix | None = None
    form: UnicodeForm | None = None
    recorded_fingerprint: str | None = None

    @property
    def n_parameters(self) -> int:
        """Number of values in all arrays together."""
        return sum(array.numel() for array in self.arrays.values())

    def to(self, dtype: torch.dtype) -> "StoredBiLM":
        """Return the same biLM with contiguous arrays in a dtype, on the CPU."""
        arrays = {
            name: array.detach().cpu().to(dtype).contiguous()
            for name, array in self.arrays.items()
        }
        return replace(self, arrays=arrays)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the arrays, in float32 and by name, and over everything else
        that vectors depend on. Models with one fingerprint give the same vectors, for
        text in their Unicode form. It is computed at first use, and not again if arrays
        change.
        """
        # Not functools.cached_property: before Python 3.12 it has a lock. A forked
        # process may inherit it from a thread that held it.
        found: str | None = self.__dict__.get("_fingerprint")
        if found is None:
            found = self.__dict__["_fingerprint"] = self._hash()
        return found

    def _hash(self) -> str:
        # Settings at their defaults are left out: a new setting changes no fingerprint.
        defaults = BiLMConfig().to_dict()
        sizes = self.config.to_dict()
        parts: dict[str, Any] = {k: v for k, v in sizes.items() if v != defaults[k]}
        if self.config.n_words:
            parts["vocab"] = self.vocab
        if self.alphabet is not None:
            parts["alphabet"] = self.alphabet
        digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode())
        for name in sorted(self.arrays):
            digest.update(name.encode())
            array = self.arrays[name].detach().cpu().float().contiguous()
            digest.update(array.numpy().data)
        return digest.hexdigest()


def checked(stored: StoredBiLM, path: str | Path) -> StoredBiLM:
    """Check a model that was read from a path. Return it with arrays in float32.

    Raises:
        ValueError: [EL022] The vocabulary of the word embedding is missing. [EL003] The
            embeddings have another number of words or of characters, the alphabet lacks
            a mark, or there is no such Unicode form. [EL012] The fingerprint is not the
            one that was recorded. Also as `check_arrays`.

    Warns:
        UserWarning: [ELW62] The model has a word embedding without <UNK>.
    """
    if stored.config.n_words and stored.vocab is None:
        raise Errors.EL022(path=path, part="word embedding")
    if problem := _problem(stored):
        raise Errors.EL003(path=path, problem=problem)
    if stored.config.n_words and stored.vocab and UNK not in stored.vocab:
        warnings.warn(Warnings.ELW62(path=path, first=stored.vocab[0]), stacklevel=4)
    check_arrays(path, stored.arrays, empty_arrays(stored.config))
    stored = stored.to(torch.float32)
    expected = stored.recorded_fingerprint
    if expected is not None and stored.fingerprint != expected:
        raise Errors.EL012(path=path, found=stored.fingerprint, expected=expected)
    return stored


def _problem(stored: StoredBiLM) -> str | None:
    """Return what does not fit in the words, the alphabet or the Unicode form."""
    config, alphabet = stored.config, stored.alphabet
    n_words, n_rows = len(stored.vocab or []), config.n_characters - 1
    if config.n_words not in (0, n_words):
        return f"its vocabulary has {n_words} words for {config.n_words} rows"
    if stored.form not in (None, *FORMS):
        return f"its Unicode form is {stored.form!r}"
    if config.characters == "alphabet":
        if type(alphabet) is not list or not all(isinstance(c, str) for c in alphabet):
            return "its alphabet is not a list of characters"
        if len(alphabet) != n_rows:
            return f"its alphabet has {len(alphabet)} characters for {n_rows} rows"
        if missing := [mark for mark in MARKS if mark not in alphabet]:
            return f"its alphabet has no {', '.join(missing)}"
    return None


def empty_arrays(config: BiLMConfig) -> dict[str, Tensor]:
    """Return the parameters of a biLM by name. They have shapes, but no memory."""
    with torch.device("meta"):
        return BidirectionalLM(config).state_dict()


def renamed(name: str, rules: Mapping[str, str]) -> str:
    """Return a name after some rules, one after another, have replaced a pattern in it
    by a text."""
    for pattern, text in rules.items():
        name = re.sub(pattern, text, name)
    return name


def count_numbered(names: Container[str], name: str) -> int:
    """Return how many names have a number, counted from 0: "layer_0", "layer_1" ..."""
    return next(i for i in count() if name.format(i) not in names)
