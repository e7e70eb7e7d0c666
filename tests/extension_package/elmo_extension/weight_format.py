"""A weight format: everything in one .npz file of NumPy."""

import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from spacy_elmo.bilm import BiLMConfig, objectives
from spacy_elmo.bilm.weights import CARD, StoredBiLM
from spacy_elmo.errors import Errors
from spacy_elmo.files import reading, write_files
from spacy_elmo.registry import registry

FILE = "elmo_extension.npz"


@registry.formats("elmo-extension-npz")
class NpzFormat:
    """Sizes and words as JSON beside the arrays, each under its own name."""

    name = "elmo-extension-npz"
    layout = f"'{FILE}'"
    files = (FILE,)
    dtypes = ("float32",)
    keeps_training = False

    def matches(self, path: Path) -> bool:
        """Return whether a path is the file, or a folder that holds it."""
        return _file(path).name == FILE and _file(path).is_file()

    def read_config(self, path: Path) -> BiLMConfig:
        """Return the sizes of a model without reading its weights."""
        with _open(path) as file, np.load(file) as arrays:
            sizes = json.loads(str(arrays["header"]))["bilm"]
        return BiLMConfig.from_dict(sizes)

    def load(self, path: Path) -> StoredBiLM:
        """Read a model."""
        with _open(path) as file, np.load(file) as npz:
            header = json.loads(str(npz["header"]))
            sizes, vocab, alphabet = (header[k] for k in ("bilm", "vocab", "alphabet"))
            names = [name for name in npz.files if name != "header"]
            arrays = {name: torch.from_numpy(npz[name]) for name in names}
        return StoredBiLM(BiLMConfig.from_dict(sizes), vocab, alphabet, arrays)

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

        def write(path: Path) -> None:
            with path.open("wb") as file:
                np.savez(file, header=np.array(json.dumps(header)), **arrays)

        # An older model stays whole if this fails.
        write_files(folder, {FILE: write}, remove=[objectives.FILE, CARD])


def _file(path: Path) -> Path:
    return path / FILE if path.is_dir() else path


@contextmanager
def _open(path: Path) -> Iterator[Path]:
    """Give the file. What fails while it is read is one error, of a damaged file."""
    file = _file(path)
    with reading(file, Errors.EL002, format="an .npz file"):
        with zipfile.ZipFile(file) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        if size > file.stat().st_size:
            raise ValueError("its arrays are compressed, to any size perhaps")
        yield file
