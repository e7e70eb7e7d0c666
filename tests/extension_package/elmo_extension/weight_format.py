"""A weight format: everything in one .npz file of NumPy."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from spacy_elmo.bilm import BiLMConfig
from spacy_elmo.bilm.weights import StoredBiLM
from spacy_elmo.registry import registry

FILE = "bilm.npz"


@registry.formats("elmo-extension-npz")
class NpzFormat:
    """Sizes and words as JSON beside the arrays, each under its own name."""

    name = "elmo-extension-npz"
    layout = f"'{FILE}'"
    dtypes = ("float32",)
    keeps_training = False

    def matches(self, path: Path) -> bool:
        """Return whether a path is the file, or a folder that holds it."""
        return _file(path).name == FILE and _file(path).is_file()

    def read_config(self, path: Path) -> BiLMConfig:
        """Return the sizes of a model without reading its weights."""
        with np.load(_file(path)) as file:
            return BiLMConfig.from_dict(json.loads(str(file["header"]))["bilm"])

    def load(self, path: Path) -> StoredBiLM:
        """Read a model."""
        with np.load(_file(path)) as file:
            header = json.loads(str(file["header"]))
            names = [name for name in file.files if name != "header"]
            arrays = {name: torch.from_numpy(file[name]) for name in names}
        config = BiLMConfig.from_dict(header["bilm"])
        return StoredBiLM(config, header["vocab"], header["alphabet"], arrays)

    def save(
        self,
        stored: StoredBiLM,
        folder: Path,
        *,
        objective: object = None,
        card: Mapping[str, Any] | None = None,
    ) -> None:
        """Write a model."""
        header = {
            "bilm": stored.config.to_dict(),
            "vocab": stored.vocab,
            "alphabet": stored.alphabet,
        }
        arrays = {name: array.numpy() for name, array in stored.arrays.items()}
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(folder / FILE, header=np.array(json.dumps(header)), **arrays)


def _file(path: Path) -> Path:
    return path / FILE if path.is_dir() else path
