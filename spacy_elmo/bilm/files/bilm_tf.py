"""bilm-tf and AllenNLP: `options.json` and one HDF5 file, in and out, to the bit.

Their gates are ordered i, j, f, o (j is the candidate, our g); ours o, i, f, g. Their
character table has no row for the absent character 0; ours has one, of zeros.
Foreign names stay in this file.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from torch import Tensor

from ...atomic_files import write_files, write_text
from ...errors import Errors
from ..bilm import BiLM
from ..config import BiLMConfig
from .hdf5 import array_shapes, only_hdf5, open_file
from .own import (
    check_format,
    check_shapes,
    check_vocab,
    empty_bilm,
    fill,
    read_json,
    read_vocab,
)

OPTIONS, WEIGHTS, VOCAB = "options.json", "weights.hdf5", "vocab.txt"
_DIRECTIONS = {"forward_lstm": "RNN_0", "backward_lstm": "RNN_1"}
_THEIRS_TO_OURS = (3, 0, 2, 1)  # where our gates o, i, f, g stand among i, j, f, o
_OURS_TO_THEIRS = (1, 3, 2, 0)


def load(folder: Path) -> BiLM:
    """Raises FileNotFoundError [EL001], ValueError [EL002-EL009, EL011,
    EL020-EL023]."""
    options = read_json(folder / OPTIONS)
    path = only_hdf5(folder)
    with open_file(path) as file:
        shapes = array_shapes(file, path)
        config = _config(options, shapes, folder / OPTIONS, path)
        vocab = read_vocab(folder / VOCAB) if (folder / VOCAB).exists() else None
        if config.n_words:
            check_vocab(folder / VOCAB, vocab, config.n_words)
        bilm = empty_bilm(config, vocab)
        names = _names(bilm)
        for array in names.values():
            if array.theirs not in shapes:
                raise ValueError(Errors.EL006.format(path=path, name=array.theirs))
        used = {array.theirs for array in names.values()}
        unused = [n for n in shapes if n not in used and n.startswith(("CNN", "RNN"))]
        if unused:  # the options are of a smaller model
            raise ValueError(
                Errors.EL011.format(path=path, names=", ".join(unused[:5]))
            )
        check_shapes(
            path,
            {
                ours: array.our_shape(shapes[array.theirs])
                for ours, array in names.items()
            },
            bilm,
        )
        try:
            arrays = {
                ours: array.read(np.asarray(file[array.theirs], dtype=np.float32))
                for ours, array in names.items()
            }
        except OSError as error:  # a damaged block
            raise ValueError(Errors.EL004.format(path=path, error=error)) from error
    return fill(bilm, arrays, path)


def save(bilm: BiLM, folder: Path) -> None:
    """Raises ValueError [EL005, EL016, EL027], OSError [EL013]."""
    config = bilm.config
    problem = None
    if config.forget_bias != 1.0:
        problem = f"its forget bias is {config.forget_bias}, theirs is always 1"
    elif config.lstm_projection != (config.projection_dim < config.hidden_dim):
        problem = "they project cells exactly if projection_dim is below dim"
    elif config.has_characters and (
        config.token_projection != (config.n_filters != config.projection_dim)
    ):
        problem = (
            "they project tokens exactly if the filters don't sum to the projection"
        )
    elif config.word_dim or config.characters != "bytes":
        problem = "it reads an alphabet of its own or words beside characters"
    if problem:
        raise ValueError(Errors.EL027.format(problem=problem))
    check_format(folder, ("config.json", "encoder.pkl"))
    if others := [p.name for p in folder.glob("*.hdf5") if p.name != WEIGHTS]:
        names = ", ".join([WEIGHTS, *others])
        raise ValueError(Errors.EL005.format(path=folder, names=names))
    state = bilm.state_dict()

    def write_weights(path: Path) -> None:
        parts: dict[str, list[np.ndarray]] = {}  # W_0 comes in two
        for ours, array in _names(bilm).items():
            part = array.write(state[ours].detach().cpu().float())
            parts.setdefault(array.theirs, []).append(part)
        with h5py.File(path, "w") as file:
            for theirs, arrays in parts.items():
                file.create_dataset(theirs, data=np.concatenate(arrays))

    writers: dict[str, Callable[[Path], Any]] = {WEIGHTS: write_weights}
    if bilm.vocab is not None:
        text = "".join(f"{word}\n" for word in bilm.vocab)
        writers[VOCAB] = lambda path: path.write_text(
            text, encoding="utf-8", newline="\n"
        )
    options = json.dumps(_options(bilm), indent=2)
    writers[OPTIONS] = partial(write_text, options)
    write_files(folder, writers, remove=[VOCAB])


# -- names and layouts ------------------------------------------------------------


class _Array:
    """One array of theirs: its name, and how it becomes ours and back."""

    def __init__(self, theirs: str) -> None:
        self.theirs = theirs

    def our_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape

    def read(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array)

    def write(self, tensor: Tensor) -> np.ndarray:
        return tensor.numpy()


class _CharTable(_Array):
    def our_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (shape[0] + 1, *shape[1:]) if shape else shape

    def read(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.pad(array, [(1, 0), (0, 0)]))

    def write(self, tensor: Tensor) -> np.ndarray:
        return tensor[1:].numpy()


class _Conv(_Array):  # (1, width, char_dim, n) <-> (n, char_dim, width)
    def our_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (
            (shape[3], shape[2], shape[1])
            if len(shape) == 4 and shape[0] == 1
            else shape
        )

    def read(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array[0].transpose(2, 1, 0)))

    def write(self, tensor: Tensor) -> np.ndarray:
        return np.ascontiguousarray(tensor.numpy().transpose(2, 1, 0)[None])


class _Gates(_Array):
    """The last axis holds four gates. W_0 is [W_x; W_h], and is split into halves."""

    def __init__(self, theirs: str, half: int | None = None) -> None:
        super().__init__(theirs)
        self.half = half

    def our_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        if self.half is None or len(shape) != 2:
            return shape
        return ((shape[0] + 1 - self.half) // 2, shape[1])

    def read(self, array: np.ndarray) -> Tensor:
        if self.half is not None:
            array = np.split(array, 2)[self.half]
        return torch.from_numpy(_reorder(array, _THEIRS_TO_OURS))

    def write(self, tensor: Tensor) -> np.ndarray:
        return _reorder(tensor.numpy(), _OURS_TO_THEIRS)


def _reorder(array: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    gates = np.split(array, 4, axis=-1)
    return np.ascontiguousarray(np.concatenate([gates[i] for i in order], axis=-1))


def _names(bilm: BiLM) -> dict[str, _Array]:
    """Our state-dict keys -> their arrays."""
    config = bilm.config
    names: dict[str, _Array] = {}
    encoder = "token_encoder"
    if config.n_words:
        names[f"{encoder}.embedding"] = _Array("embedding")
    else:
        names[f"{encoder}.char_embedding"] = _CharTable("char_embed")
        for i in range(len(config.filters)):
            names[f"{encoder}.conv_weights.{i}"] = _Conv(f"CNN/W_cnn_{i}")
            names[f"{encoder}.conv_biases.{i}"] = _Array(f"CNN/b_cnn_{i}")
        for k in range(config.n_highway):
            for gate in ("carry", "transform"):
                ours, theirs = f"{encoder}.highways.{k}.{gate}", f"CNN_high_{k}"
                names[f"{ours}_weight"] = _Array(f"{theirs}/W_{gate}")
                names[f"{ours}_bias"] = _Array(f"{theirs}/b_{gate}")
        if config.token_projection:
            names[f"{encoder}.projection_weight"] = _Array("CNN_proj/W_proj")
            names[f"{encoder}.projection_bias"] = _Array("CNN_proj/b_proj")
    for direction, rnn in _DIRECTIONS.items():
        for layer in range(config.n_layers):
            ours = f"{direction}.layers.{layer}"
            theirs = f"{rnn}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            names[f"{ours}.weight_x"] = _Gates(f"{theirs}/W_0", half=0)
            names[f"{ours}.weight_h"] = _Gates(f"{theirs}/W_0", half=1)
            names[f"{ours}.bias"] = _Gates(f"{theirs}/B")
            if config.lstm_projection:
                names[f"{ours}.weight_p"] = _Array(f"{theirs}/W_P_0")
    return names


# -- options ----------------------------------------------------------------------


def _config(
    options: Any, shapes: dict[str, tuple[int, ...]], options_path: Path, path: Path
) -> BiLMConfig:
    """Sizes from the options; what they leave open is read from the arrays."""
    try:
        lstm = options["lstm"]
        dim, projection_dim = lstm["dim"], lstm["projection_dim"]
        sizes: dict[str, Any] = {
            "hidden_dim": dim,
            "projection_dim": projection_dim,
            "n_layers": lstm["n_layers"],
            "skip_connections": bool(lstm.get("use_skip_connections", False)),
            "cell_clip": lstm.get("cell_clip"),
            "proj_clip": lstm.get("proj_clip"),
            "lstm_projection": any(name.endswith("W_P_0") for name in shapes),
        }
        if "embedding" in shapes or "char_cnn" not in options:
            if "embedding" not in shapes:
                raise ValueError(Errors.EL006.format(path=path, name="embedding"))
            sizes["n_words"] = shapes["embedding"][0] if shapes["embedding"] else 0
        else:
            cnn = options["char_cnn"]
            if "char_embed" not in shapes:
                raise ValueError(Errors.EL006.format(path=path, name="char_embed"))
            sizes |= {
                "char_dim": cnn["embedding"]["dim"],
                "filters": cnn["filters"],
                "activation": cnn.get("activation", "relu"),
                "n_highway": cnn.get("n_highway") or 0,
                "max_characters": cnn["max_characters_per_token"],
                "token_projection": "CNN_proj/W_proj" in shapes,
                # The options count the characters in two ways: the array decides.
                "n_characters": (shapes["char_embed"] or (0,))[0] + 1,
            }
    except (KeyError, TypeError, AttributeError) as error:
        problem = f"a setting is missing or of the wrong kind ({error})"
        raise ValueError(
            Errors.EL003.format(path=options_path, problem=problem)
        ) from error
    return BiLMConfig.from_dict(sizes)


def _options(bilm: BiLM) -> dict[str, Any]:
    config = bilm.config
    options: dict[str, Any] = {
        "bidirectional": True,
        "lstm": {
            "cell_clip": config.cell_clip,
            "dim": config.hidden_dim,
            "n_layers": config.n_layers,
            "proj_clip": config.proj_clip,
            "projection_dim": config.projection_dim,
            "use_skip_connections": config.skip_connections,
        },
    }
    if not config.n_words:
        options["char_cnn"] = {
            "activation": config.activation,
            "embedding": {"dim": config.char_dim},
            "filters": [list(pair) for pair in config.filters],
            "max_characters_per_token": config.max_characters,
            "n_characters": config.n_characters,
            "n_highway": config.n_highway,
        }
    if bilm.vocab is not None:
        options["n_tokens_vocab"] = len(bilm.vocab)
    return options
