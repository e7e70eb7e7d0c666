"""A biLM as its files hold it, between a format and the model."""

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ..config import BiLMConfig

DTYPES = {"float32": torch.float32, "float16": torch.float16}


@dataclass(frozen=True)
class StoredBiLM:
    """Sizes, words and arrays of a biLM.

    Attributes:
        config: All sizes.
        vocab: The words of the softmax or of the word-embedding input, if known.
        alphabet: The characters and marks of a model that does not read bytes.
        arrays: The parameters by their names in the model's state dict.
    """

    config: BiLMConfig
    vocab: list[str] | None
    alphabet: list[str] | None
    arrays: dict[str, Tensor]

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

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the float32 bytes of every array, by name, and over everything
        else that the vectors depend on: models with one fingerprint give the same
        vectors. Computed once, so ask before the arrays change."""
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
