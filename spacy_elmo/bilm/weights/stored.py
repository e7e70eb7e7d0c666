"""A biLM as its files hold it, between a format and the model, and its checks."""

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
    """A mix of layers that was trained (paper, equation 1).

    Attributes:
        weights: Softmax weights, one a layer, the token layer first.
        gamma: Scale.
    """

    weights: tuple[float, ...]
    gamma: float


@dataclass(frozen=True)
class StoredBiLM:
    """Sizes, words and arrays of a biLM.

    Attributes:
        config: All sizes.
        vocab: The words of the softmax or of the word-embedding input, if known.
        alphabet: The characters and marks of a model that does not read bytes.
        arrays: The parameters by their names in the model's state dict.
        mix: The mix of layers that was trained with the model, if it has one. Vectors
            of layers do not depend on it, so the fingerprint does not either.
        form: The Unicode form of all text that it has read, if it has one.
    """

    config: BiLMConfig
    vocab: list[str] | None
    alphabet: list[str] | None
    arrays: dict[str, Tensor]
    mix: Mix | None = None
    form: UnicodeForm | None = None

    @property
    def n_parameters(self) -> int:
        """Number of weights in all arrays together."""
        return sum(array.numel() for array in self.arrays.values())

    def to(self, dtype: torch.dtype) -> "StoredBiLM":
        """Return the same biLM with contiguous arrays of a dtype, on the CPU."""
        arrays = {
            name: array.detach().cpu().to(dtype).contiguous()
            for name, array in self.arrays.items()
        }
        return replace(self, arrays=arrays)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the float32 bytes of every array, by name, and over everything
        else that the vectors depend on: models with one fingerprint give the same
        vectors, of text in their Unicode form. Computed once, so ask before the arrays
        change."""
        # Not functools.cached_property: before Python 3.12 it has a lock, which a fork
        # may inherit from a thread that holds it.
        found: str | None = self.__dict__.get("_fingerprint")
        if found is None:
            found = self.__dict__["_fingerprint"] = self._hash()
        return found

    def _hash(self) -> str:
        # Settings at their defaults are left out, so that new ones change no
        # fingerprint.
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
    """Return a model that was read from a path, its arrays as float32.

    Raises:
        ValueError: As `check_words` and `check_shapes`; [EL003] for a Unicode form that
            there is not; [EL008] on NaN or infinity.

    Warns:
        UserWarning: [ELW62] A model that reads words has no entry for unknown ones.
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
    """Return the parameters of a biLM by name: their shapes, without memory."""
    with torch.device("meta"):
        return BidirectionalLM(config).state_dict()


def check_shapes(
    path: str | Path,
    found: Mapping[str, tuple[int, ...]],
    expected: Mapping[str, Tensor],
) -> None:
    """Compare shapes with those of empty arrays. Formats do so before they read an
    array, so that memory is only taken for arrays that fit.

    Raises:
        ValueError: [EL006] if one is missing or the model does not have it, [EL007] if
            one has another shape.
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
        problem = f"has arrays that the model has not: {', '.join(unknown[:5])}"
        raise Errors.EL006(path=path, problem=problem)


def check_words(
    path: str | Path,
    config: BiLMConfig,
    vocab: list[str] | None,
    alphabet: list[str] | None,
) -> None:
    """Compare a vocabulary and an alphabet with the embeddings that they belong to.

    Raises:
        ValueError: [EL022] if the vocabulary is missing, [EL003] if the words or the
            characters are not as many as the embeddings, or not all that are needed.
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
