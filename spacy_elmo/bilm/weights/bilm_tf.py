"""The format of bilm-tf and AllenNLP: options in JSON and one HDF5 file. Arrays that
are written and read again have the same bits.

The gates of bilm-tf are ordered i, j, f, o, where j is the candidate, our g. Ours are
o, i, f, g. Its character table has no row for id 0, "no token here"; ours has a row of
zeros. Names of bilm-tf stay in this file.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
from ..objectives import Objective
from .format import folder_of
from .stored import StoredBiLM, empty_arrays
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
_DIRECTIONS = {"forward_lstm": "RNN_0", "backward_lstm": "RNN_1"}
# The names of an LSTM's arrays in TensorFlow 1.0 to 2, with one layer or several, and
# in the graph of the module of TensorFlow Hub.
_CELL = re.compile(
    r"(?P<rnn>RNN_[01])/(rnn|RNN)/"
    r"((multi_rnn_cell|MultiRNNCell)/(cell_|Cell)(?P<layer>\d{1,3})/)?"
    r"(rnn/)?(lstm_cell|LSTMCell)/(?P<array>[\w/]+)"
)
_CELL_ARRAYS = {
    "kernel": "W_0",
    "weights": "W_0",
    "bias": "B",
    "biases": "B",
    "projection/kernel": "W_P_0",
    "projection/weights": "W_P_0",
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
        self._theirs = {_standard_name(inside): name for name, inside in names.items()}
        if len(self._theirs) < len(names):
            problem = "has arrays twice, under names of two versions of TensorFlow"
            raise Errors.EL006(path=self.path, problem=problem)
        self.shapes = {ours: file.shape(name) for ours, name in self._theirs.items()}

    def read(self, name: str) -> Tensor:
        """Read an array. Raises ValueError [EL002] if it is damaged."""
        array = self._file.read(self._theirs[name])
        if name == "char_embed":
            array = array[-BYTES:]  # that of inference begins with a row for id 0
        return torch.from_numpy(np.asarray(array, dtype=np.float32))


def _standard_name(name: str) -> str:
    if not (found := _CELL.fullmatch(name)):
        return name
    array = _CELL_ARRAYS.get(found["array"], found["array"])
    return f"{cell(found['rnn'], int(found['layer'] or 0))}/{array}"


def cell(rnn: str, layer: int | str) -> str:
    """Return the scope of an LSTM layer."""
    return f"{rnn}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


@registry.formats("bilm-tf")
class BilmTfFormat:
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

    def read_config(self, path: Path) -> BiLMConfig:
        """Return the sizes, by the options and the shapes of the arrays."""
        with _open(path) as (options, arrays):
            return read_sizes(read_json(options), options, arrays)

    def load(self, path: Path) -> StoredBiLM:
        """Read a model."""
        with _open(path) as (options, arrays):
            return read_model(options, arrays)

    def save(
        self,
        stored: StoredBiLM,
        folder: Path,
        *,
        objective: Objective | None = None,
        card: Mapping[str, Any] | None = None,
    ) -> None:
        """Write `options.json`, `weights.hdf5`, and the words if they are known. The
        format has no objective and no card.

        Raises:
            ValueError: [EL027] The format can't hold the model. [EL005] The folder has
                weights of other names.
        """
        if problem := _problem(stored.config):
            raise Errors.EL027(format=self.name, problem=problem)
        _, weights = _files(folder)
        if others := [path.name for path in weights if path.name != WEIGHTS]:
            raise Errors.EL005(path=folder, names=", ".join([WEIGHTS, *others]))
        arrays = _to_theirs(stored.arrays, stored.config)
        contents: dict[str, str | Writer] = {WEIGHTS: partial(_write_arrays, arrays)}
        if stored.vocab is not None:
            check_can_be_read_again(stored.vocab, self.name)
            contents[VOCAB] = vocab_text(stored.vocab)
        contents[OPTIONS] = json.dumps(_options(stored), indent=2)
        write_files(folder, contents, remove=[VOCAB])


def _write_arrays(arrays: Mapping[str, Tensor], path: Path) -> None:
    with create_hdf5(path) as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array.numpy())


@contextmanager
def _open(path: Path) -> Iterator[tuple[Path, Arrays]]:
    """Yield the path of the options, and the arrays. Raises ValueError [EL005] if there
    are several models. Also as `hdf5.open_file`."""
    from .hdf5 import open_file  # pyfive takes a while to import; most models need none

    pairs = _pairs(path)
    if len(pairs) > 1:
        names = ", ".join(sorted({each.name for pair in pairs for each in pair}))
        raise Errors.EL005(path=path, names=names)
    options, weights = pairs[0]
    with open_file(weights) as file:
        yield options, Arrays(file, {name: name for name in file.names})


# -- which files ------------------------------------------------------------------


def _pairs(path: Path) -> list[tuple[Path, Path]]:
    """Return the pairs of options and HDF5 file that a path can stand for. The options
    of an HDF5 file have its stem, or are `options.json`, or are the only ones."""
    options, weights = _files(path)
    pairs = list(product(options, weights))
    if path.is_dir() and len(weights) > 1:
        return pairs  # one of them may be of no model, and which one is not clear
    same_stem = [(o, w) for o, w in pairs if _stem(o) == _stem(w)]
    return same_stem or [(o, w) for o, w in pairs if o.name == OPTIONS] or pairs


def _files(path: Path) -> tuple[list[Path], list[Path]]:
    """Return the options and the HDF5 files in a folder; of a file in it, those of its
    kind are the file itself."""
    folder = folder_of(path)
    options = sorted(folder.glob(f"*{OPTIONS}"))
    weights = sorted(each for end in _HDF5 for each in folder.glob(f"*{end}"))
    if path.is_file():
        path = folder / path.name
        if path.name.endswith(OPTIONS):
            return [path], weights
        return options, [path] if path.suffix in _HDF5 else []
    return options, weights


def _stem(path: Path) -> str:
    """Return the common beginning of the names of options and weights, with its "_"."""
    return re.sub(rf"({OPTIONS}|(weights|model)?\.(hdf5|h5))$", "", path.name)


# -- arrays -----------------------------------------------------------------------


def _names(config: BiLMConfig) -> dict[str, str]:
    """Return, for each parameter, the name of the array of bilm-tf that holds it."""
    names: dict[str, str] = {}
    encoder = "token_encoder"
    if config.n_words:
        names[f"{encoder}.embedding"] = "embedding"
    else:
        names[f"{encoder}.char_embedding"] = "char_embed"
        for i in range(len(config.filters)):
            names[f"{encoder}.conv_weights.{i}"] = f"CNN/W_cnn_{i}"
            names[f"{encoder}.conv_biases.{i}"] = f"CNN/b_cnn_{i}"
        for k, gate in product(range(config.n_highway), ("carry", "transform")):
            ours = f"{encoder}.highways.{k}.{gate}"
            names[f"{ours}_weight"] = f"CNN_high_{k}/W_{gate}"
            names[f"{ours}_bias"] = f"CNN_high_{k}/b_{gate}"
        if config.token_projection:
            names[f"{encoder}.projection_weight"] = "CNN_proj/W_proj"
            names[f"{encoder}.projection_bias"] = "CNN_proj/b_proj"
    for direction, rnn in _DIRECTIONS.items():
        for layer in range(config.n_layers):
            ours, theirs = f"{direction}.layers.{layer}", cell(rnn, layer)
            # Their W_0 is [W_x; W_h].
            names[f"{ours}.weight_x"] = names[f"{ours}.weight_h"] = f"{theirs}/W_0"
            names[f"{ours}.bias"] = f"{theirs}/B"
            if config.lstm_projection:
                names[f"{ours}.weight_p"] = f"{theirs}/W_P_0"
    return names


def read_model(options: Path, arrays: Arrays) -> StoredBiLM:
    """Read a model, and its words if they are known.

    Args:
        options: The path of its options.
        arrays: Its arrays.

    Raises:
        ValueError: As `read_json`, `read_vocab_beside`, `read_sizes`, `read_weights`.
    """
    config = read_sizes(read_json(options), options, arrays)
    vocab = read_vocab_beside(options.parent / VOCAB, config)
    return StoredBiLM(config, vocab, None, read_weights(config, arrays))


def read_weights(config: BiLMConfig, arrays: Arrays) -> dict[str, Tensor]:
    """Check the shapes of all arrays, then read them. Return the parameters of a biLM.
    Raises ValueError as `check_shapes`."""
    expected = shapes_of(_to_theirs(empty_arrays(config), config))
    # Other arrays do no harm: counters, for instance.
    found = {
        name: shape
        for name, shape in arrays.shapes.items()
        if name in expected or name.startswith(("CNN", "RNN"))
    }
    check_shapes(arrays.path, found, expected)
    return {
        ours: _to_ours(ours, arrays.read(theirs))
        for ours, theirs in _names(config).items()
    }


def _to_theirs(arrays: Mapping[str, Tensor], config: BiLMConfig) -> dict[str, Tensor]:
    """Return the arrays of bilm-tf by name, from parameters by name."""
    found: dict[str, Tensor] = {}
    for ours, theirs in _names(config).items():
        array = arrays[ours]
        if ours.endswith("char_embedding"):
            array = array[1:]
        elif "conv_weights" in ours:  # (n, char_dim, width) -> (1, width, char_dim, n)
            array = array.permute(2, 1, 0)[None]
        elif _has_gates(ours):
            array = _reorder(array, _OURS_TO_THEIRS)
        found[theirs] = torch.cat([found[theirs], array]) if theirs in found else array
    return found


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
