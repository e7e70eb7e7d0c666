"""What the layers of a sentence are, by a float64 model in NumPy."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

from spacy_elmo import BiLM
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.weights import bilm_tf
from tests.bilm import reference

Weights = dict[str, torch.Tensor]


class RightVectors:
    """The layers of sentences, by the weights as they are, in float64."""

    def __init__(self, sizes: BiLMConfig, folder: Path) -> None:
        self.sizes = sizes
        self.path = folder / "right"

    def take(self, weights: Weights) -> None:
        """Take weights over; what is asked next is of them."""
        self.weights = weights
        self.arrays: dict[str, np.ndarray] = {}
        self.of = lru_cache(None)(self._of)

    def _read(self) -> None:
        """Read the weights as arrays under published names."""
        bilm = BiLM(self.sizes)
        bilm.load_state_dict(self.weights)
        bilm.save(self.path, format="bilm-tf")
        self.options = bilm_tf.read_json(self.path / "options.json")
        with h5py.File(self.path / "weights.hdf5") as file:
            file.visititems(self._keep)

    def _keep(self, name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            self.arrays[name] = item[...]

    def _of(self, tokens: tuple[str, ...]) -> np.ndarray:
        if not self.arrays:
            self._read()
        return np.asarray(reference.encode(self.arrays, self.options, tokens))
