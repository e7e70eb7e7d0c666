"""bilm-tf and AllenNLP: an options file and one HDF5 file, in and out, to the bit.

Their gates are ordered i, j, f, o (j is the candidate, our g); ours o, i, f, g. Their
character table has no row for the absent character 0; ours has one, of zeros.
Foreign names stay in this file.
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from torch import Tensor

from ...atomic_files import write_files, write_text
from ...errors import Errors
from ...registry import registry
from ..config import BiLMConfig
from ..objectives import Objective
from .bilm_tf_arrays import Array, arrays_of
from .checks import check_shapes, check_words
from .format import folder_of
from .hdf5 import array_shapes, open_file
from .stored import StoredBiLM
from .text_files import read_json, read_vocab, vocab_text

OPTIONS, WEIGHTS, VOCAB = "options.json", "weights.hdf5", "vocab.txt"


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
            return _config(options_path, array_shapes(file, path), path)

    def load(self, path: Path) -> StoredBiLM:
        """Read a model."""
        options_path, path = _pair(path)
        with open_file(path) as file:
            shapes = array_shapes(file, path)
            config = _config(options_path, shapes, path)
            vocab_path = path.parent / VOCAB
            vocab = read_vocab(vocab_path) if vocab_path.exists() else None
            check_words(path.parent, config, vocab, None)
            names = arrays_of(config)
            _check_arrays(names, shapes, config, path)
            try:
                arrays = {
                    ours: array.read(np.asarray(file[array.theirs], dtype=np.float32))
                    for ours, array in names.items()
                }
            except OSError as error:  # a damaged block
                raise ValueError(Errors.EL004.format(path=path, error=error)) from error
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
        if problem := _problem(stored.config):
            raise ValueError(Errors.EL027.format(format=self.name, problem=problem))
        others = [*folder.glob(f"*{OPTIONS}"), *folder.glob("*.hdf5")]
        if names := [p.name for p in others if p.name not in (OPTIONS, WEIGHTS)]:
            names = [WEIGHTS, *sorted(names)]
            raise ValueError(Errors.EL005.format(path=folder, names=", ".join(names)))
        writers: dict[str, Callable[[Path], object]] = {
            WEIGHTS: partial(_write_arrays, stored.arrays, arrays_of(stored.config))
        }
        if stored.vocab is not None:
            writers[VOCAB] = partial(write_text, vocab_text(stored.vocab))
        options = json.dumps(_options(stored), indent=2)
        writers[OPTIONS] = partial(write_text, options)
        write_files(folder, writers, remove=[VOCAB])


# -- which files ------------------------------------------------------------------


def _pair(path: Path) -> tuple[Path, Path]:
    """Return the options file and the HDF5 file that a path means. Raises ValueError
    [EL005] if there are several."""
    options, weights = _files(path)
    if len(options) > 1 or len(weights) > 1:
        names = ", ".join(found.name for found in [*options, *weights])
        raise ValueError(Errors.EL005.format(path=path, names=names))
    return options[0], weights[0]


def _files(path: Path) -> tuple[list[Path], list[Path]]:
    """Return the options files and the HDF5 files that a path could mean: those of its
    folder, or itself and what goes with it."""
    folder = folder_of(path)
    options = sorted(folder.glob(f"*{OPTIONS}"))
    weights = sorted(folder.glob("*.hdf5"))
    if path.is_file():
        if path.name.endswith(OPTIONS):
            return [path], _beside(path, weights)
        return _beside(path, options), [path] if path.suffix == ".hdf5" else []
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
    return path.name.removesuffix(OPTIONS).removesuffix(WEIGHTS).removesuffix(".hdf5")


# -- arrays -----------------------------------------------------------------------


def _check_arrays(
    names: dict[str, Array],
    shapes: dict[str, tuple[int, ...]],
    config: BiLMConfig,
    path: Path,
) -> None:
    """Raise ValueError [EL006, EL007, EL011] unless a file has exactly the arrays that
    sizes ask for."""
    for array in names.values():
        if array.theirs not in shapes:
            raise ValueError(Errors.EL006.format(path=path, name=array.theirs))
    used = {array.theirs for array in names.values()}
    unused = [n for n in shapes if n not in used and n.startswith(("CNN", "RNN"))]
    if unused:  # the options are of a smaller model
        raise ValueError(Errors.EL011.format(path=path, names=", ".join(unused[:5])))
    ours = {
        name: array.our_shape(shapes[array.theirs]) for name, array in names.items()
    }
    check_shapes(path, ours, config)


def _write_arrays(
    tensors: dict[str, Tensor], names: dict[str, Array], path: Path
) -> None:
    parts: dict[str, list[np.ndarray]] = {}  # W_0 comes in two
    for ours, array in names.items():
        parts.setdefault(array.theirs, []).append(array.write(tensors[ours]))
    with h5py.File(path, "w") as file:
        for theirs, arrays in parts.items():
            file.create_dataset(theirs, data=np.concatenate(arrays))


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
    if config.word_dim or config.characters != "bytes":
        return "it reads an alphabet of its own or words beside characters"
    return None


def _config(
    options_path: Path, shapes: dict[str, tuple[int, ...]], path: Path
) -> BiLMConfig:
    """Return the sizes in the options; what they leave open is read from the arrays."""
    options = read_json(options_path)
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


def _options(stored: StoredBiLM) -> dict[str, Any]:
    """Return the options of a model, as bilm-tf reads them."""
    config = stored.config
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
    if stored.vocab is not None:
        options["n_tokens_vocab"] = len(stored.vocab)
    return options
