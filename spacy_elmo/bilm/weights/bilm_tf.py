"""bilm-tf and AllenNLP: options and one HDF5 file, in and out, arrays to the bit.

Their gates are ordered i, j, f, o (j is the candidate, our g); ours o, i, f, g. Their
character table has no row for the absent character 0; ours has one, of zeros.
Foreign names stay in this file.
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

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
from .hdf5 import Hdf5File, open_file
from .stored import StoredBiLM, check_shapes, check_words, empty_arrays
from .text_files import (
    check_can_be_read_again,
    read_json,
    read_vocab_beside,
    vocab_text,
)

_HDF5 = (".hdf5", ".h5")  # endings of their weights
OPTIONS, WEIGHTS, VOCAB = "options.json", "weights.hdf5", "vocab.txt"
# Their names of our settings, and what those stand for that are not there.
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
# in the graph that TensorFlow Hub's module was made from.
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
BYTES = 261  # rows of their table of characters, where these are bytes
_THEIRS_TO_OURS = (3, 0, 2, 1)  # where our gates o, i, f, g stand among i, j, f, o
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
        """Return the sizes, from the options and the shapes of the arrays."""
        options_path, path = _pair(path)
        with open_file(path) as file:
            return read_sizes(options_path, _shapes(file, path)[0], path)

    def load(self, path: Path) -> StoredBiLM:
        """Read a model."""
        options_path, path = _pair(path)
        with open_file(path) as file:
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
        """Write `options.json`, `weights.hdf5` and the words, if known."""
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


def _shapes(
    file: Hdf5File, path: Path
) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    """Return the shapes of a file's arrays, and their names there, by standard names.
    Raises ValueError [EL006] if two arrays have one."""
    theirs = {standard_name(name): name for name in file.shapes}
    if len(theirs) < len(file.shapes):
        problem = "has arrays twice, under names of two versions of TensorFlow"
        raise Errors.EL006(path=path, problem=problem)
    return {name: file.shapes[there] for name, there in theirs.items()}, theirs


# -- which files ------------------------------------------------------------------


def _pair(path: Path) -> tuple[Path, Path]:
    """Return the options and the HDF5 file of a path. Raises ValueError [EL005]."""
    options, weights = _files(path)
    if len(options) > 1 or len(weights) > 1:
        names = ", ".join(found.name for found in [*options, *weights])
        raise Errors.EL005(path=path, names=names)
    return options[0], weights[0]


def _files(path: Path) -> tuple[list[Path], list[Path]]:
    """Return the options files and the HDF5 files that a path could mean."""
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
    """Return, of the files of the other kind, the one that is named as a file is, else
    `options.json`, else all of them."""
    same_stem = [other for other in others if _stem(other) == _stem(path)]
    plain = [other for other in others if other.name == OPTIONS]
    return same_stem or plain or others


def _stem(path: Path) -> str:
    """Return the name that options and weights have in common, up to its "_"."""
    name = path.name.removesuffix(OPTIONS)
    for end in ("weights", "model"):
        for suffix in _HDF5:
            name = name.removesuffix(end + suffix)
    return name.removesuffix(path.suffix)


# -- arrays -----------------------------------------------------------------------


def _names(config: BiLMConfig) -> dict[str, str]:
    """Return their name of the array that each parameter of ours is in."""
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
    """Return the name of an array as HDF5 files of several layers have it. TensorFlow
    does not wrap the cells of one layer alone, and its versions name them in other
    ways."""
    if not (cell := _CELL.fullmatch(name)):
        return name
    array = _CELL_ARRAYS.get(cell["array"], cell["array"])
    layer = int(cell["layer"] or 0)
    return f"{cell['rnn']}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/{array}"


def read_weights(
    config: BiLMConfig,
    shapes: Mapping[str, tuple[int, ...]],
    path: Path,
    read: Callable[[str], np.ndarray],
) -> dict[str, Tensor]:
    """Return the parameters of a biLM, if all their shapes fit.

    Args:
        config: Its sizes.
        shapes: The shapes of all arrays that were found, by their names.
        path: The file, for messages.
        read: Returns one of these arrays.

    Raises:
        ValueError: [EL006, EL007] The arrays are not those of the model.
    """
    expected = _to_theirs(empty_arrays(config), config)
    # Others than weights of ours do no harm: counters and the like.
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
    """Return arrays of ours by their names, laid out as theirs are."""
    found: dict[str, Tensor] = {}
    for ours, theirs in _names(config).items():
        array = arrays[ours]
        if ours.endswith("char_embedding"):
            array = array[1:]
        elif "conv_weights" in ours:  # (n, char_dim, width) -> (1, width, char_dim, n)
            array = array.permute(2, 1, 0)[None]
        elif ours.endswith(("weight_x", "weight_h", "bias")) and "_lstm" in ours:
            array = _reorder(array, _OURS_TO_THEIRS)
        # W_0 is [W_x; W_h], and W_x comes first.
        found[theirs] = torch.cat([found[theirs], array]) if theirs in found else array
    return found


def _to_ours(ours: str, array: np.ndarray) -> Tensor:
    """Return the parameter of ours that an array of theirs holds."""
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
    """Return the four gates along the last axis in another order."""
    gates = array.chunk(4, dim=-1)
    return torch.cat([gates[i] for i in order], dim=-1)


def _write_arrays(arrays: Mapping[str, Tensor], path: Path) -> None:
    with create_hdf5(path) as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array.numpy())


# -- options ----------------------------------------------------------------------


def _problem(config: BiLMConfig) -> str | None:
    """Return why the format can't hold a model of these sizes, None if it can."""
    if config.forget_bias != 1.0:
        return f"its forget bias is {config.forget_bias}, theirs is always 1"
    if config.lstm_projection != (config.projection_dim < config.hidden_dim):
        return "they project cells exactly if projection_dim is below dim"
    if config.has_characters and (
        config.token_projection != (config.n_filters != config.projection_dim)
    ):
        return "they project tokens exactly if the filters don't sum to the projection"
    if config.has_characters and config.n_characters != BYTES + 1:
        return f"it has {config.n_characters} characters, theirs are {BYTES + 1}"
    if config.word_dim or config.characters != "bytes":
        return "it reads an alphabet of its own or words beside characters"
    return None


def read_sizes(
    options_path: Path, shapes: Mapping[str, tuple[int, ...]], path: Path
) -> BiLMConfig:
    """Return the sizes in the options; what they leave open is read from the arrays.

    Args:
        options_path: The file of options.
        shapes: The shapes of the arrays, by their names.
        path: The file of the arrays, for messages.

    Raises:
        ValueError: [EL002, EL003, EL020] The options can't be read, or say sizes that
            can't be; [EL006] the arrays have no table of characters or words.
    """
    return sizes_of(read_json(options_path), options_path, shapes, path)


def sizes_of(
    options: Any,
    options_path: Path,
    shapes: Mapping[str, tuple[int, ...]],
    path: Path,
) -> BiLMConfig:
    """Return the sizes in options that were read. Raises as `read_sizes`."""
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
                # The options count the characters in two ways: the array decides.
                "n_characters": n_rows + 1,
            }
    except (KeyError, TypeError, AttributeError) as error:
        problem = f"a setting is missing or of the wrong kind ({error})"
        raise Errors.EL003(path=options_path, problem=problem) from error
    return BiLMConfig.from_dict(sizes)


def _options(stored: StoredBiLM) -> dict[str, Any]:
    """Return the options of a model, as bilm-tf reads them."""
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
