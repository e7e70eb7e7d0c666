"""A biLM as it is stored in files, between a format and the model, and its checks."""

import hashlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...errors import Errors, Warnings
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
    """

    config: BiLMConfig
    vocab: list[str] | None
    alphabet: list[str] | None
    arrays: dict[str, Tensor]
    mix: Mix | None = None
    form: UnicodeForm | None = None

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
        ValueError: [EL003] There is no such Unicode form. [EL008] An array has NaN or
            infinity. Also as `check_words` and `check_shapes`.

    Warns:
        UserWarning: [ELW62] The model has a word embedding without <UNK>.
    """
    check_words(path, stored.config, stored.vocab, stored.alphabet)
    if stored.form not in (None, *FORMS):
        problem = f"its Unicode form is {stored.form!r}"
        raise Errors.EL003(path=path, problem=problem)
    if stored.config.n_words and stored.vocab and UNK not in stored.vocab:
        found = {"path": path, "first": stored.vocab[0]}
        warnings.warn(Warnings.ELW62(**found), stacklevel=4)
    shapes = {name: tuple(array.shape) for name, array in stored.arrays.items()}
    check_shapes(path, shapes, empty_arrays(stored.config))
    for name, array in stored.arrays.items():
        if not torch.isfinite(array).all():
            raise Errors.EL008(name=name, path=path)
    return stored.to(torch.float32)


def empty_arrays(config: BiLMConfig) -> dict[str, Tensor]:
    """Return the parameters of a biLM by name. They have shapes, but no memory."""
    with torch.device("meta"):
        return BidirectionalLM(config).state_dict()


def check_shapes(
    path: str | Path,
    found: Mapping[str, tuple[int, ...]],
    expected: Mapping[str, Tensor],
) -> None:
    """Compare the shapes of arrays with the shapes that a model has. Formats do so
    before they read an array, so that memory is only taken for arrays that fit.

    Args:
        path: The file, for messages.
        found: The shapes in the file by name.
        expected: The parameters of the model by name, as of `empty_arrays`.

    Raises:
        ValueError: [EL006] An array is missing, or the model does not have it. [EL007]
            An array has another shape.
    """
    for name, array in expected.items():
        shape = tuple(array.shape)
        if name not in found:
            problem = f"has no array '{name}'"
            raise Errors.EL006(path=path, problem=problem)
        if found[name] != shape:
            shapes = {"found": found[name], "expected": shape}
            raise Errors.EL007(path=path, name=name, **shapes)
    unknown = sorted(set(found) - set(expected))
    if unknown:
        problem = f"has arrays that the model does not have: {', '.join(unknown[:5])}"
        raise Errors.EL006(path=path, problem=problem)


def check_words(
    path: str | Path,
    config: BiLMConfig,
    vocab: list[str] | None,
    alphabet: list[str] | None,
) -> None:
    """Compare a vocabulary and an alphabet with the embeddings of a model.

    Args:
        path: The model, for messages.
        config: The sizes of the model.
        vocab: Its words, if known.
        alphabet: Its characters and marks, if it does not read bytes.

    Raises:
        ValueError: [EL022] The vocabulary is missing. [EL003] The embeddings have
            another number of words or of characters, or the alphabet lacks a mark.
    """
    if config.n_words and vocab is None:
        raise Errors.EL022(path=path)
    n_words, n_expected, problem = len(vocab or []), config.n_characters - 1, None
    if config.n_words and n_words != config.n_words:
        problem = f"its vocabulary has {n_words} words for {config.n_words} rows"
    elif config.characters != "alphabet":
        return
    elif not isinstance(alphabet, list) or not all(
        isinstance(c, str) for c in alphabet
    ):
        problem = "its alphabet is not a list of characters"
    elif len(alphabet) != n_expected:
        problem = f"its alphabet has {len(alphabet)} characters for {n_expected} rows"
    elif missing := [mark for mark in MARKS if mark not in alphabet]:
        problem = f"its alphabet has no {', '.join(missing)}"
    if problem:
        raise Errors.EL003(path=path, problem=problem)
