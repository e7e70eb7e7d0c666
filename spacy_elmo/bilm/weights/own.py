"""Our own model folder: `config.json`, `weights.safetensors`, and `vocab.txt` if the
words are known.

A safetensors file has plain arrays and no code. Its header has their shapes, so memory
is taken only for arrays that fit.
"""

import json
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from ...errors import Errors
from ...files import Writer, json_with_checksum, reading, sha256_of, write_files
from ...registry import registry
from .. import objectives
from ..config import BiLMConfig
from ..objectives.storage import write_safetensors
from .format import folder_of
from .stored import DTYPES, Mix, StoredBiLM, check_shapes, check_words, empty_arrays
from .text_files import (
    check_can_be_read_again,
    read_json,
    read_own_json,
    read_vocab,
    vocab_text,
)

CONFIG, WEIGHTS, VOCAB = "config.json", "weights.safetensors", "vocab.txt"
ALPHABET, CARD = "alphabet.json", "card.json"
FILES = (CONFIG, WEIGHTS, VOCAB, ALPHABET, CARD, objectives.FILE)
FORMAT_VERSION = 1
FORM = "unicode_form"  # in the configuration and, for people, in the card
_SAFETENSORS_FLOATS = ("F64", "F32", "F16", "BF16")


@registry.formats("spacy-elmo")
class OwnFormat:
    """The format of this package (a `WritableFormat`)."""

    name = "spacy-elmo"
    layout = f"'{CONFIG}' and '{WEIGHTS}'"
    dtypes = tuple(DTYPES)
    keeps_training = True

    def matches(self, path: Path) -> bool:
        """Return whether there are a configuration and weights."""
        if path.is_file() and path.name not in (CONFIG, WEIGHTS):
            return False
        folder = folder_of(path)
        return (folder / CONFIG).exists() and (folder / WEIGHTS).exists()

    def read_config(self, path: Path) -> BiLMConfig:
        """Return the sizes."""
        return BiLMConfig.from_dict(_header(folder_of(path) / CONFIG)["bilm"])

    def read_mix(self, path: Path) -> Mix | None:
        """Return the mix of layers that was trained with the model, or None."""
        header = _header(place := folder_of(path) / CONFIG)
        return _mix(header, BiLMConfig.from_dict(header["bilm"]), place)

    def load(self, path: Path) -> StoredBiLM:
        """Read a model.

        Raises:
            ValueError: [EL003] A setting or the words are damaged or changed. [EL012]
                The weights have another fingerprint than the configuration says. Also
                as `check_words` and `check_shapes`.
        """
        folder = folder_of(path)
        path, header = folder / WEIGHTS, _header(folder / CONFIG)
        config = BiLMConfig.from_dict(header["bilm"])
        vocab = read_vocab(folder / VOCAB) if (folder / VOCAB).exists() else None
        recorded = header.get("vocab_sha256")  # edited files may lack it
        if recorded is not None and recorded != sha256_of(vocab_text(vocab or [])):
            problem = "it was changed after it was written, or is not there"
            raise Errors.EL003(path=folder / VOCAB, problem=problem)
        has_alphabet = config.characters == "alphabet"
        alphabet = read_json(folder / ALPHABET) if has_alphabet else None
        check_words(folder, config, vocab, alphabet)
        arrays, mix = _read_arrays(path, config), _mix(header, config, folder / CONFIG)
        form = header.get(FORM)
        stored = StoredBiLM(config, vocab, alphabet, arrays, mix, form)
        found, expected = stored.fingerprint, header.get("fingerprint")
        if expected is not None and found != expected:
            both = {"found": found, "expected": expected, "config": folder / CONFIG}
            raise Errors.EL012(path=path, **both)
        return stored

    def save(
        self,
        stored: StoredBiLM,
        folder: Path,
        *,
        objective: objectives.Objective | None = None,
        card: Mapping[str, Any] | None = None,
    ) -> None:
        """Write a model, and remove the files of the model that was in the folder.

        Args:
            stored: The model.
            folder: The folder to write.
            objective: The objective of the training.
            card: The origin of the model.

        Raises:
            ValueError: [EL027] A word has a line break. [EL061] The folder has a model
                of another program.
        """
        words = stored.vocab
        _check_ours(Path(folder) / CONFIG)
        check_can_be_read_again(words, self.name)
        header: dict[str, Any] = {
            "format": FORMAT_VERSION,
            "fingerprint": stored.fingerprint,
            "bilm": stored.config.to_dict(),
        }
        if stored.mix is not None:
            header["mix"] = {"weights": stored.mix.weights, "gamma": stored.mix.gamma}
        dtype = next(iter(stored.arrays.values())).dtype
        contents: dict[str, str | Writer] = {
            WEIGHTS: partial(write_safetensors, arrays=stored.arrays)
        }
        if objective is not None:
            contents[objectives.FILE] = partial(objectives.save, objective, dtype=dtype)
        if words is not None:
            contents[VOCAB] = vocab_text(words)
        if stored.alphabet is not None:
            contents[ALPHABET] = json.dumps(stored.alphabet, ensure_ascii=False)
        if card is not None:
            identified = {**card, "fingerprint": stored.fingerprint}
            identified |= {} if stored.form is None else {FORM: stored.form}
            contents[CARD] = json_with_checksum(identified)
        if stored.form is not None:
            header[FORM] = stored.form
        if words is not None:
            header["vocab_sha256"] = sha256_of(vocab_text(words))
        contents[CONFIG] = json_with_checksum(header)
        write_files(folder, contents, remove=FILES)


def _check_ours(path: Path) -> None:
    """Raise ValueError [EL061] if `config.json` belongs to another program, as BERT's
    does."""
    try:
        header = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return  # there is no such file, or it can't be read
    if not (isinstance(header, dict) and isinstance(header.get("bilm"), dict)):
        raise Errors.EL061(path=path)


def _header(path: Path) -> dict[str, Any]:
    """Read `config.json`. Raises ValueError [EL003] if it is damaged, [EL014] if its
    version is newer than this package."""
    header = read_own_json(path)
    if not isinstance(header, dict) or not isinstance(header.get("bilm"), dict):
        problem = "it has no 'bilm' section"
        raise Errors.EL003(path=path, problem=problem)
    version = header.get("format")
    if type(version) is not int or version < FORMAT_VERSION:
        problem = f"its format is {version!r}"
        raise Errors.EL003(path=path, problem=problem)
    if version > FORMAT_VERSION:
        versions = {"found": version, "known": FORMAT_VERSION}
        raise Errors.EL014(path=path, **versions)
    return header


def _mix(header: dict[str, Any], config: BiLMConfig, path: Path) -> Mix | None:
    """Return the mix of layers in a configuration, or None."""
    if (found := header.get("mix")) is None:
        return None
    try:
        numbers = [float(number) for number in (*found["weights"], found["gamma"])]
    except (KeyError, TypeError, ValueError, OverflowError):
        numbers = []
    if len(numbers) != config.n_layers + 2 or not all(map(math.isfinite, numbers)):
        problem = "its 'mix' has not one number for each layer, and a scale"
        raise Errors.EL003(path=path, problem=problem)
    return Mix(tuple(numbers[:-1]), numbers[-1])


def _read_arrays(path: Path, config: BiLMConfig) -> dict[str, Tensor]:
    """Check the shapes of all arrays, then read them as float32."""
    with reading(path, Errors.EL010), safe_open(path, framework="pt") as file:
        names = list(file.keys())
        parts = {name: file.get_slice(name) for name in names}
        shapes = {name: tuple(part.get_shape()) for name, part in parts.items()}
        for name, part in parts.items():
            if part.get_dtype() not in _SAFETENSORS_FLOATS:
                found = {"name": name, "problem": f"of type {part.get_dtype()}"}
                raise Errors.EL009(path=path, **found)
        check_shapes(path, shapes, empty_arrays(config))
        # Copies, since safetensors returns memory that is mapped to the file.
        return {n: file.get_tensor(n).to(torch.float32, copy=True) for n in names}
