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

from safetensors import safe_open
from torch import Tensor

from ...errors import Errors
from ...files import (
    Writer,
    check_plain,
    json_with_checksum,
    reading,
    sha256_of,
    write_files,
)
from ...registry import registry
from .. import objectives
from ..arrays import check_shapes, shapes_of, write_safetensors
from ..config import BiLMConfig
from .format import folder_of
from .stored import DTYPES, Mix, StoredBiLM, empty_arrays
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
            ValueError: [EL002] A file can't be read. [EL003] A setting is damaged, or
                the words were changed. Also as `check_shapes`.
        """
        folder = folder_of(path)
        header = _header(folder / CONFIG)
        config = BiLMConfig.from_dict(header["bilm"])
        vocab = read_vocab(folder / VOCAB) if (folder / VOCAB).exists() else None
        recorded = header.get("vocab_sha256")  # edited files may lack it
        if recorded is not None and recorded != sha256_of(vocab_text(vocab or [])):
            problem = "it was changed after it was written, or is not there"
            raise Errors.EL003(path=folder / VOCAB, problem=problem)
        has_alphabet = config.characters == "alphabet"
        return StoredBiLM(
            config,
            vocab,
            read_json(folder / ALPHABET) if has_alphabet else None,
            _read_arrays(folder / WEIGHTS, config),
            _mix(header, config, folder / CONFIG),
            header.get(FORM),
            header.get("fingerprint"),
        )

    def save(
        self,
        stored: StoredBiLM,
        folder: Path,
        *,
        objective: objectives.Objective | None = None,
        card: Mapping[str, Any] | None = None,
    ) -> None:
        """Write a model, and remove the files of the model that was in the folder.

        Raises:
            ValueError: [EL027] A word has a line break. [EL061] The folder has a model
                of another program.
        """
        _check_ours(folder / CONFIG)
        dtype = next(iter(stored.arrays.values())).dtype
        contents: dict[str, str | Writer] = {
            WEIGHTS: partial(write_safetensors, arrays=stored.arrays)
        }
        header: dict[str, Any] = {
            "format": FORMAT_VERSION,
            "fingerprint": stored.fingerprint,
            "bilm": stored.config.to_dict(),
        }
        form = {} if stored.form is None else {FORM: stored.form}
        if stored.mix is not None:
            header["mix"] = stored.mix._asdict()
        header |= form
        if stored.vocab is not None:
            check_can_be_read_again(stored.vocab, self.name)
            contents[VOCAB] = words = vocab_text(stored.vocab)
            header["vocab_sha256"] = sha256_of(words)
        if stored.alphabet is not None:
            contents[ALPHABET] = json.dumps(stored.alphabet, ensure_ascii=False)
        if objective is not None:
            contents[objectives.FILE] = partial(objectives.save, objective, dtype=dtype)
        if card is not None:
            card = {**card, "fingerprint": stored.fingerprint, **form}
            contents[CARD] = json_with_checksum(card)
        contents[CONFIG] = json_with_checksum(header)
        write_files(folder, contents, remove=FILES)


def _check_ours(path: Path) -> None:
    """Raise ValueError [EL061] if `config.json` belongs to another program, as BERT's
    does."""
    try:
        check_plain(path)  # a pipe would never end
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
        raise Errors.EL014(path=path, found=version, known=FORMAT_VERSION)
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
    """Check the shapes of all arrays, then read them."""
    with (
        reading(path, Errors.EL002, format="safetensors"),
        safe_open(path, framework="pt") as file,
    ):
        names = list(file.keys())
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in names}
        check_shapes(path, shapes, shapes_of(empty_arrays(config)))
        # Copies, since safetensors returns memory that is mapped to the file.
        return {name: file.get_tensor(name).clone() for name in names}
