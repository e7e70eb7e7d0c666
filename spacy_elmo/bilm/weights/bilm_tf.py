"""The format of bilm-tf and AllenNLP: options in JSON and one HDF5 file. Arrays that
are written and read again have the same bits.

The gates of bilm-tf are ordered i, j, f, o, where j is the candidate, our g. Ours are
o, i, f, g. Its character table has no row for id 0, "no token here"; ours has a row of
zeros. Names of bilm-tf stay in this file.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import Errors
from ...files import Writer, create_hdf5, write_files
from ...registry import registry
from ..arrays import check_shapes, shapes_of
from ..config import BiLMConfig
from ..objectives import FILE, Objective
from .format import folder_of
from .own import CARD
from .stored import StoredBiLM, empty_arrays, renamed
from .text_files import (
    check_can_be_read_again,
    read_json,
    read_vocab_beside,
    settings_of,
    vocab_text,
)

if TYPE_CHECKING:
    from .hdf5 import Hdf5File
    from .tensor_bundle import TensorBundle

_HDF5 = (".hdf5", ".h5")  # endings of the weights
OPTIONS, WEIGHTS, VOCAB = "options.json", "weights.hdf5", "vocab.txt"
# The names of our settings in bilm-tf, and the values of settings that are missing.
_LSTM = {
    "cell_clip": "cell_clip",
    "dim": "hidden_dim",
    "n_layers": "n_layers",
    "proj_clip": "proj_clip",
    "projection_dim": "projection_dim",
    "use_skip_connections": "skip_connections",
}
_LSTM_DEFAULTS = {"cell_clip": None, "proj_clip": None, "use_skip_connections": False}
# Scope of a forward layer; {} is its number.
CELL = "RNN_0/RNN/MultiRNNCell/Cell{}/LSTMCell"
# Patterns in the names of our parameters, and what replaces each, one after another.
# W_0 is [W_x; W_h].
_NAMES = {
    r"token_encoder\.embedding": "embedding",
    r"token_encoder\.char_embedding": "char_embed",
    r"token_encoder\.conv_weights\.": "CNN/W_cnn_",
    r"token_encoder\.conv_biases\.": "CNN/b_cnn_",
    r"token_encoder\.highways\.(\d+)\.(\w+)_weight": r"CNN_high_\1/W_\2",
    r"token_encoder\.highways\.(\d+)\.(\w+)_bias": r"CNN_high_\1/b_\2",
    r"token_encoder\.projection_weight": "CNN_proj/W_proj",
    r"token_encoder\.projection_bias": "CNN_proj/b_proj",
    r"forward_lstm\.layers\.(\d+)\.": r"RNN_0/RNN/MultiRNNCell/Cell\1/LSTMCell/",
    r"backward_lstm\.layers\.(\d+)\.": r"RNN_1/RNN/MultiRNNCell/Cell\1/LSTMCell/",
    "/weight_[xh]$": "/W_0",
    "/weight_p$": "/W_P_0",
    "/bias$": "/B",
}
# Patterns in the names of an LSTM's arrays, and what replaces each: in TensorFlow 1.0
# to 2, with one layer or several, and in the graph of the module of TensorFlow Hub.
_STANDARD_NAMES = {
    "^(RNN_[01])/(?:rnn|RNN)/"
    r"(?:(?:multi_rnn_cell/cell_|MultiRNNCell/Cell)(\d{1,3})/)?"
    "(?:rnn/)?(?:lstm_cell|LSTMCell)/": r"\1/RNN/MultiRNNCell/Cell\2/LSTMCell/",
    "/Cell/LSTMCell/": "/Cell0/LSTMCell/",  # one layer is not numbered
    "/LSTMCell/projection/(kernel|weights)$": "/LSTMCell/W_P_0",
    "/LSTMCell/(kernel|weights)$": "/LSTMCell/W_0",
    "/LSTMCell/bias(es)?$": "/LSTMCell/B",
}
BYTES = 261  # rows of bilm-tf's character table
_THEIRS_TO_OURS = (3, 0, 2, 1)  # places of our gates o, i, f, g among i, j, f, o
_OURS_TO_THEIRS = (1, 3, 2, 0)


class Arrays:
    """The arrays of a file by the names that HDF5 files of bilm-tf with several layers
    have. Models of one layer have other names, and so have other versions of
    TensorFlow.

    Args:
        file: The open file.
        names: For each name in the file, the name in the scope of the biLM.

    Attributes:
        path: The path of the file, for messages.
        shapes: The shape of each array.

    Raises:
        ValueError: [EL006] Two arrays have the same name.
    """

    def __init__(
        self, file: "Hdf5File | TensorBundle", names: Mapping[str, str]
    ) -> None:
        self._file, self.path = file, file.path
        self._theirs = {
            renamed(inside, _STANDARD_NAMES): name for name, inside in names.items()
        }
        if len(self._theirs) < len(names):
            problem = "has arrays twice, under names of two versions of TensorFlow"
            raise Errors.EL006(path=self.path, problem=problem)
        shapes = file.shapes(names)
        self.shapes = {ours: shapes[name] for ours, name in self._theirs.items()}

    def read(self, name: str) -> Tensor:
        """Read an array. Raises ValueError [EL002] if it is damaged."""
        array = self._file.read(self._theirs[name])
        return torch.from_numpy(np.asarray(array, dtype=np.float32))


class ArraysFormat(ABC):
    """The base class of the formats that have the arrays of bilm-tf."""

    @abstractmethod
    def open(self, path: Path) -> AbstractContextManager[tuple[Any, Path, Arrays]]:
        """Yield the options, where they are from, and the arrays."""

    def read_config(self, path: Path) -> BiLMConfig:
        """Return the sizes, by the options and the shapes of the arrays."""
        with self.open(path) as opened:
            return read_sizes(*opened)

    def load(self, path: Path) -> StoredBiLM:
        """Read a model, and its words if they are known."""
        with self.open(path) as (options, where, arrays):
            config = read_sizes(options, where, arrays)
            vocab = read_vocab_beside(where.with_name(VOCAB), config)
            return StoredBiLM(config, vocab, None, read_weights(config, arrays))


@registry.formats("bilm-tf")
class BilmTfFormat(ArraysFormat):
    """The format of bilm-tf and AllenNLP (a `WritableFormat`)."""

    name = "bilm-tf"
    layout = (
        f"'{OPTIONS}' and one '*.hdf5', or files named as they are published, "
        "'..._options.json' and '..._weights.hdf5'"
    )
    dtypes = ("float32",)
    keeps_training = False

    def matches(self, path: Path) -> bool:
        """Return whether there are options and an HDF5 file."""
        return bool(_pairs(path))

    @contextmanager
    def open(self, path: Path) -> Iterator[tuple[Any, Path, Arrays]]:
        """Yield the options, where they are from, and the arrays. Raises ValueError
        [EL005] if there are several models. Also as `hdf5.open_file`."""
        from .hdf5 import open_file  # pyfive takes a while to import

        pairs = _pairs(path)
        if len(pairs) > 1:
            names = ", ".join(sorted({each.name for pair in pairs for each in pair}))
            raise Errors.EL005(path=path, names=names)
        options, weights = pairs[0]
        with open_file(weights) as file:
            arrays = Arrays(file, {name: name for name in file.names})
            yield read_json(options), options, arrays

    def save(
        self,
        stored: StoredBiLM,
        folder: Path,
        *,
        objective: Objective | None = None,
        card: Mapping[str, Any] | None = None,
    ) -> None:
        """Write `options.json`, `weights.hdf5`, and the words if they are known. The
        format has no objective and no card; those of the model before are removed.

        Raises:
            ValueError: [EL027] The format can't hold the model. [EL005] The folder has
                weights of other names.
        """
        if problem := _problem(stored.config):
            raise Errors.EL027(format=self.name, problem=problem)
        if others := sorted({path.name for path in _weights_in(folder)} - {WEIGHTS}):
            raise Errors.EL005(path=folder, names=", ".join([WEIGHTS, *others]))
        in_order = {name: stored.arrays[name] for name in empty_arrays(stored.config)}
        arrays = _to_theirs(in_order)
        contents: dict[str, str | Writer] = {WEIGHTS: partial(_write_arrays, arrays)}
        if stored.vocab is not None:
            check_can_be_read_again(stored.vocab, self.name)
            contents[VOCAB] = vocab_text(stored.vocab)
        contents[OPTIONS] = json.dumps(_options(stored), indent=2)
        write_files(folder, contents, remove=[VOCAB, FILE, CARD])


def _write_arrays(arrays: Mapping[str, Tensor], path: Path) -> None:
    with create_hdf5(path) as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array.numpy())


# -- which files ------------------------------------------------------------------


def _pairs(path: Path) -> list[tuple[Path, Path]]:
    """Return the pairs of options and HDF5 file that a path can stand for. The options
    of an HDF5 file have its stem, or are `options.json`, or are the only ones."""
    folder = folder_of(path)
    weights = _weights_in(folder)
    pairs = list(product(sorted(folder.glob(f"*{OPTIONS}")), weights))
    if path.is_file():
        pairs = [pair for pair in pairs if folder / path.name in pair]
    elif len(weights) > 1:
        return pairs  # one of them may be of no model, and which one is not clear
    same_stem = [(o, w) for o, w in pairs if _stem(o) == _stem(w)]
    return same_stem or [(o, w) for o, w in pairs if o.name == OPTIONS] or pairs


def _weights_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.h*5") if path.suffix in _HDF5)


def _stem(path: Path) -> str:
    """Return the common beginning of the names of options and weights, with its "_"."""
    return re.sub(rf"({OPTIONS}|(weights|model)?\.(hdf5|h5))$", "", path.name)


# -- arrays -----------------------------------------------------------------------


def read_weights(config: BiLMConfig, arrays: Arrays) -> dict[str, Tensor]:
    """Check the shapes of all arrays, then read them. Return the parameters of a biLM.
    Raises ValueError as `check_shapes`."""
    ours = empty_arrays(config)
    expected = shapes_of(_to_theirs(ours))
    # Other arrays do no harm: counters, for instance.
    found = {
        name: shape
        for name, shape in arrays.shapes.items()
        if name in expected or name.startswith(("CNN", "RNN"))
    }
    check_shapes(arrays.path, found, expected)
    return {name: _to_ours(name, arrays.read(renamed(name, _NAMES))) for name in ours}


def _to_theirs(arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the arrays of bilm-tf by name, from parameters by name, in the order of
    the model: weight_x comes before weight_h."""
    parts: dict[str, list[Tensor]] = {}
    for name, array in arrays.items():
        parts.setdefault(renamed(name, _NAMES), []).append(_part_of_theirs(name, array))
    return {name: torch.cat(found) for name, found in parts.items()}


def _part_of_theirs(ours: str, array: Tensor) -> Tensor:
    if ours.endswith("char_embedding"):
        return array[1:]
    if "conv_weights" in ours:  # (n, char_dim, width) -> (1, width, char_dim, n)
        return array.permute(2, 1, 0)[None]
    return _reorder(array, _OURS_TO_THEIRS) if _has_gates(ours) else array


def _to_ours(ours: str, array: Tensor) -> Tensor:
    """Return the parameter of a name, from the array of bilm-tf that holds it."""
    if ours.endswith("char_embedding"):
        return F.pad(array, (0, 0, 1, 0))
    if "conv_weights" in ours:
        return array[0].permute(2, 1, 0)
    if ours.endswith(("weight_x", "weight_h")):
        array = array.chunk(2)[ours.endswith("weight_h")]
    return _reorder(array, _THEIRS_TO_OURS) if _has_gates(ours) else array


def _has_gates(ours: str) -> bool:
    return "_lstm" in ours and not ours.endswith("weight_p")


def _reorder(array: Tensor, order: tuple[int, ...]) -> Tensor:
    """Reorder the four gates along the last axis."""
    gates = array.chunk(4, dim=-1)
    return torch.cat([gates[i] for i in order], dim=-1)


# -- options ----------------------------------------------------------------------


def _problem(config: BiLMConfig) -> str | None:
    """Return the problem if the format can't hold a model of these sizes, or None."""
    if config.forget_bias != 1.0:
        return f"its forget bias is {config.forget_bias}; bilm-tf has 1"
    if config.lstm_projection != (config.projection_dim < config.hidden_dim):
        return "bilm-tf projects cells exactly if projection_dim is below dim"
    if config.has_characters and (
        config.token_projection != (config.n_filters != config.projection_dim)
    ):
        return "bilm-tf projects tokens exactly if the filters don't sum to the width"
    if config.has_characters and config.n_characters != BYTES + 1:
        return f"it has {config.n_characters} characters; bilm-tf has {BYTES + 1}"
    if config.word_dim or config.characters != "bytes":
        return "it reads an alphabet of its own or words beside characters"
    return None


def read_sizes(options: Any, options_path: Path, arrays: Arrays) -> BiLMConfig:
    """Return the sizes of a model: those in the options, and those that only the shapes
    of arrays tell.

    Args:
        options: The content of the options.
        options_path: Where they are from, for messages.
        arrays: The arrays.

    Raises:
        ValueError: [EL003] A setting is missing or of the wrong kind. [EL020] A size is
            out of bounds. [EL006] There is no table of characters or words. [EL163] The
            table of characters has another number of rows. [EL167] The model has one
            direction.
    """
    if isinstance(options, dict) and options.get("bidirectional") is False:
        raise Errors.EL167(path=options_path)
    with settings_of(options_path):
        lstm = {**_LSTM_DEFAULTS, **options["lstm"]}
        sizes: dict[str, Any] = {ours: lstm[theirs] for theirs, ours in _LSTM.items()}
        if (skips := sizes["skip_connections"]) not in (True, False, None):
            raise TypeError(f"use_skip_connections is {skips!r}")
        sizes["skip_connections"] = bool(skips)
        sizes["lstm_projection"] = any(name.endswith("W_P_0") for name in arrays.shapes)
        reads_words = "embedding" in arrays.shapes or "char_cnn" not in options
        table = "embedding" if reads_words else "char_embed"
        if table not in arrays.shapes:
            raise Errors.EL006(path=arrays.path, problem=f"has no array '{table}'")
        n_rows = (arrays.shapes[table] or (0,))[0]
        if reads_words:
            sizes["n_words"] = n_rows
        elif n_rows != BYTES:
            raise Errors.EL163(path=arrays.path, found=n_rows)
        else:
            cnn = options["char_cnn"]
            sizes |= {
                "char_dim": cnn["embedding"]["dim"],
                "filters": cnn["filters"],
                "activation": cnn.get("activation", "relu"),
                "n_highway": cnn.get("n_highway") or 0,
                "max_characters": cnn["max_characters_per_token"],
                "token_projection": "CNN_proj/W_proj" in arrays.shapes,
                # Versions of bilm-tf count characters differently. The array decides.
                "n_characters": BYTES + 1,
            }
    return BiLMConfig.from_dict(sizes)


def _options(stored: StoredBiLM) -> dict[str, Any]:
    """Return the options of a model for bilm-tf."""
    config = stored.config
    options: dict[str, Any] = {
        "bidirectional": True,
        "lstm": {theirs: getattr(config, ours) for theirs, ours in _LSTM.items()},
    }
    if not config.n_words:
        options["char_cnn"] = {
            "activation": config.activation,
            "embedding": {"dim": config.char_dim},
            "filters": config.filters,
            "max_characters_per_token": config.max_characters,
            "n_characters": config.n_characters,
            "n_highway": config.n_highway,
        }
    if stored.vocab is not None:
        options["n_tokens_vocab"] = len(stored.vocab)
    return options
