"""The format of bilm-tf and AllenNLP: options in JSON and one HDF5 file. Arrays that
are written and read again have the same bits.

The gates of bilm-tf are ordered i, j, f, o, where j is the candidate, our g. Ours are
o, i, f, g. Its character table has no row for id 0, "no token here"; ours has a row of
zeros. Names of bilm-tf stay in this file.
"""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
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
from ..config import BiLMConfig
from ..objectives import Objective
from .format import folder_of
from .stored import StoredBiLM, check_shapes, check_words, empty_arrays
from .text_files import (
    check_can_be_read_again,
    read_json,
    read_vocab_beside,
    vocab_text,
)

if TYPE_CHECKING:
    from .hdf5 import Hdf5File

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
        return all(_files(path))

    def read_config(self, path: Path) -> BiLMConfig:
        """Return the sizes, by the options and the shapes of the arrays."""
        options_path, path = _pair(path)
        with _open(path) as file:
            return read_sizes(options_path, _shapes(file, path)[0], path)

    def load(self, path: Path) -> StoredBiLM:
        """Read a model."""
        options_path, path = _pair(path)
        with _open(path) as file:
            shapes, theirs = _shapes(file, path)
            config = read_sizes(options_path, shapes, path)
            vocab = read_vocab_beside(path.parent / VOCAB, config)
            check_words(path.parent, config, vocab, None)
            arrays = read_weights(
                config, shapes, path, lambda name: file.read(theirs[name])
            )
        return StoredBiLM(config, vocab, None, arrays)

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
                weights or options of other names.
        """
        check_can_be_read_again(stored.vocab, self.name)
        if problem := _problem(stored.config):
            raise Errors.EL027(format=self.name, problem=problem)
        others = [each for found in _files(folder) for each in found]
        if names := [p.name for p in others if p.name not in (OPTIONS, WEIGHTS)]:
            names = [WEIGHTS, *sorted(names)]
            raise Errors.EL005(path=folder, names=", ".join(names))
        arrays = _to_theirs(stored.arrays, stored.config)
        contents: dict[str, str | Writer] = {WEIGHTS: partial(_write_arrays, arrays)}
        if stored.vocab is not None:
            contents[VOCAB] = vocab_text(stored.vocab)
        contents[OPTIONS] = json.dumps(_options(stored), indent=2)
        write_files(folder, contents, remove=[VOCAB])


def _open(path: Path) -> AbstractContextManager["Hdf5File"]:
    """Open an HDF5 file. Raises as `hdf5.open_file`."""
    from .hdf5 import open_file  # pyfive takes a while to import; most models need none

    return open_file(path)


def _shapes(
    file: "Hdf5File", path: Path
) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    """Return two dictionaries by standard name: the shape of each array, and its name
    in the file. Raises ValueError [EL006] as `by_standard_name`."""
    theirs = by_standard_name({name: standard_name(name) for name in file.shapes}, path)
    return {name: file.shapes[there] for name, there in theirs.items()}, theirs


# -- which files ------------------------------------------------------------------


def _pair(path: Path) -> tuple[Path, Path]:
    """Return the options and the HDF5 file of a path. Raises ValueError [EL005] if
    there are several."""
    options, weights = _files(path)
    if len(options) > 1 or len(weights) > 1:
        names = ", ".join(found.name for found in [*options, *weights])
        raise Errors.EL005(path=path, names=names)
    return options[0], weights[0]


def _files(path: Path) -> tuple[list[Path], list[Path]]:
    """Return all options files and all HDF5 files that a path can stand for."""
    folder = folder_of(path)
    options = sorted(folder.glob(f"*{OPTIONS}"))
    weights = sorted(each for end in _HDF5 for each in folder.glob(f"*{end}"))
    if path.is_file():
        path = folder / path.name
        if path.name.endswith(OPTIONS):
            return [path], _beside(path, weights)
        return _beside(path, options), [path] if path.suffix in _HDF5 else []
    if folder / OPTIONS in options:
        options = [folder / OPTIONS]
    elif len(weights) == 1:
        options = _beside(weights[0], options)
    return options, weights


def _beside(path: Path, others: list[Path]) -> list[Path]:
    """Return the files that belong to a file, among the files of the other kind: the
    one with the same stem, else `options.json`, else all."""
    same_stem = [other for other in others if _stem(other) == _stem(path)]
    plain = [other for other in others if other.name == OPTIONS]
    return same_stem or plain or others


def _stem(path: Path) -> str:
    """Return the common beginning of the names of options and weights, with its "_"."""
    name = path.name.removesuffix(OPTIONS)
    for end in ("weights", "model"):
        for suffix in _HDF5:
            name = name.removesuffix(end + suffix)
    return name.removesuffix(path.suffix)


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
            ours = f"{direction}.layers.{layer}"
            theirs = f"{rnn}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            names[f"{ours}.weight_x"] = names[f"{ours}.weight_h"] = f"{theirs}/W_0"
            names[f"{ours}.bias"] = f"{theirs}/B"
            if config.lstm_projection:
                names[f"{ours}.weight_p"] = f"{theirs}/W_P_0"
    return names


def standard_name(name: str) -> str:
    """Return the name that an array has in an HDF5 file of bilm-tf with several layers.
    Models of one layer have other names, and so have other versions of TensorFlow."""
    if not (cell := _CELL.fullmatch(name)):
        return name
    array = _CELL_ARRAYS.get(cell["array"], cell["array"])
    layer = int(cell["layer"] or 0)
    return f"{cell['rnn']}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/{array}"


def by_standard_name(names: Mapping[str, str], path: Path) -> dict[str, str]:
    """Return the names of arrays in a file by standard name, from their standard names
    by name. Raises ValueError [EL006] if two arrays have the same standard name."""
    found = {standard: name for name, standard in names.items()}
    if len(found) < len(names):
        problem = "has arrays twice, under names of two versions of TensorFlow"
        raise Errors.EL006(path=path, problem=problem)
    return found


def read_weights(
    config: BiLMConfig,
    shapes: Mapping[str, tuple[int, ...]],
    path: Path,
    read: Callable[[str], np.ndarray],
) -> dict[str, Tensor]:
    """Check the shapes of all arrays, then read them. Return the parameters of a biLM.

    Args:
        config: The sizes.
        shapes: The shapes of all arrays in the file, by standard name.
        path: The file, for messages.
        read: Reads an array by its standard name.

    Raises:
        ValueError: [EL006] An array is missing, or the model does not have it. [EL007]
            An array has another shape.
    """
    expected = _to_theirs(empty_arrays(config), config)
    # Other arrays do no harm: counters, for instance.
    found = {
        name: shape
        for name, shape in shapes.items()
        if name in expected or name.startswith(("CNN", "RNN"))
    }
    check_shapes(path, found, expected)
    return {
        ours: _to_ours(ours, np.asarray(read(theirs), dtype=np.float32))
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
        elif ours.endswith(("weight_x", "weight_h", "bias")) and "_lstm" in ours:
            array = _reorder(array, _OURS_TO_THEIRS)
        # W_0 is [W_x; W_h]. The names have W_x first.
        found[theirs] = torch.cat([found[theirs], array]) if theirs in found else array
    return found


def _to_ours(ours: str, array: np.ndarray) -> Tensor:
    """Return the parameter of a name, from the array of bilm-tf that holds it."""
    tensor = torch.from_numpy(array)
    if ours.endswith("char_embedding"):
        return F.pad(tensor, (0, 0, 1, 0))
    if "conv_weights" in ours:
        return tensor[0].permute(2, 1, 0)
    if ours.endswith(("weight_x", "weight_h")):
        tensor = tensor.chunk(2)[ours.endswith("weight_h")]
    elif "_lstm" not in ours or ours.endswith("weight_p"):
        return tensor
    return _reorder(tensor, _THEIRS_TO_OURS)


def _reorder(array: Tensor, order: tuple[int, ...]) -> Tensor:
    """Reorder the four gates along the last axis."""
    gates = array.chunk(4, dim=-1)
    return torch.cat([gates[i] for i in order], dim=-1)


def _write_arrays(arrays: Mapping[str, Tensor], path: Path) -> None:
    with create_hdf5(path) as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array.numpy())


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


def read_sizes(
    options_path: Path, shapes: Mapping[str, tuple[int, ...]], path: Path
) -> BiLMConfig:
    """Return the sizes of a model: those in the options, and those that only the shapes
    of arrays tell.

    Args:
        options_path: The file of options.
        shapes: The shapes of the arrays, by standard name.
        path: The file of the arrays, for messages.

    Raises:
        ValueError: [EL002] The options can't be read. [EL003] A setting is missing or
            of the wrong kind. [EL020] A size is out of bounds. [EL006] There is no
            table of characters or words. [EL163] The table of characters has another
            number of rows. [EL167] The model has one direction.
    """
    return sizes_of(read_json(options_path), options_path, shapes, path)


def sizes_of(
    options: Any,
    options_path: Path,
    shapes: Mapping[str, tuple[int, ...]],
    path: Path,
) -> BiLMConfig:
    """Return the sizes of a model, whose options were read already. Arguments and
    errors are those of `read_sizes`; options: the content of the file."""
    if isinstance(options, dict) and options.get("bidirectional") is False:
        raise Errors.EL167(path=options_path)
    try:
        lstm = {**_LSTM_DEFAULTS, **options["lstm"]}
        sizes: dict[str, Any] = {ours: lstm[theirs] for theirs, ours in _LSTM.items()}
        if (skips := sizes["skip_connections"]) not in (True, False, None):
            raise TypeError(f"use_skip_connections is {skips!r}")
        sizes["skip_connections"] = bool(skips)
        sizes["lstm_projection"] = any(name.endswith("W_P_0") for name in shapes)
        reads_words = "embedding" in shapes or "char_cnn" not in options
        table = "embedding" if reads_words else "char_embed"
        if table not in shapes:
            problem = f"has no array '{table}'"
            raise Errors.EL006(path=path, problem=problem)
        n_rows = (shapes[table] or (0,))[0]
        if reads_words:
            sizes["n_words"] = n_rows
        elif n_rows != BYTES:
            raise Errors.EL163(path=path, found=n_rows)
        else:
            cnn = options["char_cnn"]
            sizes |= {
                "char_dim": cnn["embedding"]["dim"],
                "filters": cnn["filters"],
                "activation": cnn.get("activation", "relu"),
                "n_highway": cnn.get("n_highway") or 0,
                "max_characters": cnn["max_characters_per_token"],
                "token_projection": "CNN_proj/W_proj" in shapes,
                # Versions of bilm-tf count characters differently. The array decides.
                "n_characters": n_rows + 1,
            }
    except (KeyError, TypeError, AttributeError) as error:
        problem = f"a setting is missing or of the wrong kind ({error})"
        raise Errors.EL003(path=options_path, problem=problem) from error
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
