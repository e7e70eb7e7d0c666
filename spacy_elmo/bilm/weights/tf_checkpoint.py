"""Checkpoints of TensorFlow: training checkpoints of bilm-tf, and the module
`google/elmo` of TensorFlow Hub. Read only.

Both have the arrays of bilm-tf's HDF5 files (bilm_tf.py) under the names of the graph.
A training checkpoint also has the softmax, which HDF5 files lack. The module has no
options. Its sizes are the shapes of its arrays. Arrays don't tell clips, activation and
skip connections: these are the values of the published models, the defaults of
`BiLMConfig`.
"""

import math
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...errors import Errors
from ...registry import registry
from ..config import BiLMConfig
from ..objectives import FullSoftmax, Objective, SampledSoftmax
from .bilm_tf import (
    BYTES,
    OPTIONS,
    VOCAB,
    by_standard_name,
    read_sizes,
    read_weights,
    sizes_of,
    standard_name,
)
from .format import folder_of
from .stored import Mix, StoredBiLM, check_words
from .tensor_bundle import INDEX, TensorBundle, latest
from .text_files import read_json, read_vocab_beside

_SOFTMAX_W, _SOFTMAX_B = "softmax/W", "softmax/b"
# Beginnings of the names of a biLM's arrays and its softmax. Other arrays do no harm:
# counters and states, for instance.
_WEIGHTS = ("CNN", "RNN", "char_embed", "embedding", "softmax/")
_MIX_WEIGHTS, _MIX_GAMMA = "aggregation/weights", "aggregation/scaling"


def _names(bundle: TensorBundle, scope: str) -> dict[str, str]:
    """Return, for each array in a scope of the graph, its name in HDF5 files. Slots of
    optimizers have names below those of their variables, and are left out."""
    found = {}
    for name in bundle.entries:
        if not name.startswith(scope) or name.rpartition("/")[0] in bundle.entries:
            continue
        inside = name.removeprefix(scope)
        if not inside.startswith(_WEIGHTS):
            continue
        found[name] = standard_name(inside)
    return found


class _Arrays:
    """The arrays of a bundle by their names in HDF5 files."""

    def __init__(self, prefix: Path, scope: str) -> None:
        self.bundle = TensorBundle(prefix)
        self.path = self.bundle.path
        names = _names(self.bundle, scope)
        self.shapes = self.bundle.shapes(names)
        self._theirs = by_standard_name(names, self.path)

    def read(self, name: str) -> np.ndarray:
        return self.bundle.read(self._theirs[name])


# -- training checkpoints of bilm-tf ----------------------------------------------


@registry.formats("bilm-tf-checkpoint")
class CheckpointFormat:
    """A training checkpoint of bilm-tf (a `TrainedFormat`)."""

    name = "bilm-tf-checkpoint"
    layout = f"'{OPTIONS}', 'model.ckpt-...{INDEX}' and '.data-00000-of-00001'"

    def matches(self, path: Path) -> bool:
        """Return whether there are options and an index."""
        if path.is_file() and not _is_of_checkpoint(path.name):
            return False
        folder = folder_of(path)
        return (folder / OPTIONS).exists() and any(folder.glob(f"*{INDEX}"))

    def read_config(self, path: Path) -> BiLMConfig:
        """Return the sizes, by the options and the shapes of the arrays."""
        arrays = _open_checkpoint(path)
        return read_sizes(folder_of(path) / OPTIONS, arrays.shapes, arrays.path)

    def load(self, path: Path) -> StoredBiLM:
        """Read a model."""
        folder, arrays = folder_of(path), _open_checkpoint(path)
        config = read_sizes(folder / OPTIONS, arrays.shapes, arrays.path)
        vocab = read_vocab_beside(folder / VOCAB, config)
        check_words(folder, config, vocab, None)
        weights = read_weights(config, arrays.shapes, arrays.path, arrays.read)
        return StoredBiLM(config, vocab, None, weights)

    def has_objective(self, path: Path) -> bool:
        """Return whether there is a softmax."""
        return _SOFTMAX_B in _open_checkpoint(path).shapes

    def load_objective(self, path: Path, width: int, n_words: int) -> Objective:
        """Read the softmax. It is sampled in training if the options say so.

        Args:
            path: Model folder, or a file in it.
            width: Size of the vectors that are predicted from.
            n_words: Size of the vocabulary; 0 if the words are not known.

        Raises:
            ValueError: [EL161] There is no vocabulary. [EL162] The vocabulary and the
                softmax have different numbers of words. [EL007] An array has another
                shape, [EL008] or is not finite.
        """
        arrays = _open_checkpoint(path)
        # The softmax of a model may share the word embedding.
        weight = _SOFTMAX_W if _SOFTMAX_W in arrays.shapes else "embedding"
        rows = (arrays.shapes.get(weight) or (0,))[0]
        if not n_words:
            raise Errors.EL161(path=folder_of(path), rows=rows)
        if n_words != rows:
            place = folder_of(path) / VOCAB
            values = {"path": place, "found": n_words, "rows": rows}
            raise Errors.EL162(**values)
        shapes = {weight: (n_words, width), _SOFTMAX_B: (n_words,)}
        state = {}
        for ours, theirs in (("weight", weight), ("bias", _SOFTMAX_B)):
            found = {"found": arrays.shapes.get(theirs), "expected": shapes[theirs]}
            where = {"path": arrays.path, "name": theirs}
            if found["found"] != found["expected"]:
                raise Errors.EL007(**where, **found)
            array = np.asarray(arrays.read(theirs), dtype=np.float32)
            state[ours] = torch.from_numpy(array)
            if not torch.isfinite(state[ours]).all():
                raise Errors.EL008(**where)
        softmax = _softmax(read_json(folder_of(path) / OPTIONS), width, n_words)
        softmax.load_state_dict(state)
        return softmax


def _softmax(options: Any, width: int, n_words: int) -> Objective:
    """Return the softmax of bilm-tf's options. It is sampled, unless the options say
    otherwise or there are not more words than samples."""
    samples = options.get("n_negative_samples_batch")
    if not options.get("sample_softmax", True) or type(samples) is not int:
        return FullSoftmax(width, n_words)
    if not 0 < samples < n_words:
        return FullSoftmax(width, n_words)
    return SampledSoftmax(width, n_words, samples)


def _is_of_checkpoint(name: str) -> bool:
    return name in (OPTIONS, "checkpoint") or bool(
        re.search(r"\.(index|meta|data-\d+-of-\d+)$", name)
    )


def _open_checkpoint(path: Path) -> _Arrays:
    """Open the checkpoint of a file, or the newest checkpoint of a folder. Raises
    ValueError [EL005] if it is not clear which one."""
    folder = folder_of(path)
    prefix = None
    if path.is_file() and path.name not in (OPTIONS, "checkpoint"):
        stem = re.sub(r"\.(index|meta|data-\d+-of-\d+)$", "", path.name)
        prefix = folder / stem
    else:
        prefix = latest(folder)
    found = sorted(folder.glob(f"*{INDEX}"))
    if prefix is None and len(found) == 1:
        prefix = found[0].with_suffix("")
    if prefix is None or prefix.with_name(prefix.name + INDEX) not in found:
        names = ", ".join(each.name for each in found)
        raise Errors.EL005(path=folder, names=names)
    return _Arrays(prefix, "lm/")


# -- TensorFlow Hub ---------------------------------------------------------------


@registry.formats("tf-hub")
class HubFormat:
    """The module `google/elmo` of TensorFlow Hub (a `Format`)."""

    name = "tf-hub"
    layout = f"'tfhub_module.pb' and 'variables/variables{INDEX}'"

    def matches(self, path: Path) -> bool:
        """Return whether there are a module and its variables."""
        folder = _module_of(path)
        if path.is_file() and path.name not in _MODULE and path.parent == folder:
            return False
        has_module = any((folder / name).exists() for name in _MODULE)
        return has_module and (folder / "variables" / f"variables{INDEX}").exists()

    def read_config(self, path: Path) -> BiLMConfig:
        """Return the sizes, by the shapes of the arrays."""
        return _sizes_of_module(_open_module(path))

    def load(self, path: Path) -> StoredBiLM:
        """Read a model and its trained mix of layers."""
        arrays = _open_module(path)
        config = _sizes_of_module(arrays)
        shapes = dict(arrays.shapes)
        shapes["char_embed"] = (config.n_characters - 1, config.char_dim)
        weights = read_weights(config, shapes, arrays.path, partial(_of_bytes, arrays))
        mix = _trained_mix(arrays.bundle, config.n_layers + 1)
        return StoredBiLM(config, None, None, weights, mix)

    def read_mix(self, path: Path) -> Mix | None:
        """Return the mix of layers that was trained with the model, or None."""
        arrays = _open_module(path)
        return _trained_mix(arrays.bundle, _sizes_of_module(arrays).n_layers + 1)


_MODULE = ("tfhub_module.pb", "saved_model.pb")


def _module_of(path: Path) -> Path:
    """Return the folder of a module, from its path or the path of a file in it."""
    folder = path.parent if path.is_file() else path
    return folder.parent if folder.name == "variables" else folder


def _open_module(path: Path) -> _Arrays:
    return _Arrays(_module_of(path) / "variables" / "variables", "bilm/")


def _of_bytes(arrays: _Arrays, name: str) -> np.ndarray:
    """Read an array. The character table of bilm-tf's inference begins with a row of
    zeros for id 0, which is left out here."""
    array = arrays.read(name)
    return array[-BYTES:] if name == "char_embed" else array


def _sizes_of_module(arrays: _Arrays) -> BiLMConfig:
    """Return the sizes, by the shapes of the arrays. Raises ValueError [EL006] if they
    are not the arrays of a biLM, [EL163] if characters are not bytes."""
    shapes = arrays.shapes
    cell = "RNN_0/RNN/MultiRNNCell/Cell{}/LSTMCell/{}".format
    rows = (shapes.get("char_embed") or (0,))[0]
    if rows not in (BYTES, BYTES + 1):
        raise Errors.EL163(path=arrays.path, found=rows)
    try:
        n_layers = _count(shapes, lambda i: cell(i, "W_0"))
        hidden_dim = shapes[cell(0, "B")][0] // 4
        kinds = [
            shapes[f"CNN/W_cnn_{i}"]
            for i in range(_count(shapes, "CNN/W_cnn_{}".format))
        ]
        projection = shapes.get(cell(0, "W_P_0"), (hidden_dim, hidden_dim))[1]
        options = {
            "lstm": {
                "dim": hidden_dim,
                "projection_dim": projection,
                "n_layers": n_layers,
                "cell_clip": BiLMConfig().cell_clip,
                "proj_clip": BiLMConfig().proj_clip,
                "use_skip_connections": True,
            },
            "char_cnn": {
                "embedding": {"dim": shapes["char_embed"][1]},
                "filters": [[width, n] for _, width, _, n in kinds],
                "n_highway": _count(shapes, "CNN_high_{}/W_carry".format),
                "max_characters_per_token": BiLMConfig().max_characters,
            },
        }
    except (KeyError, ValueError, IndexError) as error:
        problem = f"lacks arrays of a biLM ({error})"
        raise Errors.EL006(path=arrays.path, problem=problem) from error
    bytes_alone = {**shapes, "char_embed": (BYTES, shapes["char_embed"][1])}
    return sizes_of(options, arrays.path, bytes_alone, arrays.path)


def _count(shapes: dict[str, tuple[int, ...]], name: Any) -> int:
    """Return the number of arrays with a numbered name."""
    return next(i for i in range(len(shapes) + 1) if name(i) not in shapes)


def _trained_mix(bundle: TensorBundle, n_layers: int) -> Mix | None:
    """Return the mix of n_layers layers (paper, equation 1) that a module was trained
    with, or None."""
    names = _MIX_WEIGHTS, _MIX_GAMMA
    if not set(names) <= set(bundle.entries):
        return None
    bundle.shapes({name: name for name in names})
    found = []
    for name, n in zip(names, (n_layers, 1)):
        where = {"path": bundle.path, "name": name}
        if math.prod(shape := bundle.entries[name].shape) != n:
            raise Errors.EL007(**where, found=shape, expected=(n,))
        array = bundle.read(name).astype(np.float64).reshape(-1)
        if not np.isfinite(array).all():
            raise Errors.EL008(**where)
        found.append(array.tolist())
    return Mix(tuple(found[0]), found[1][0])
