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
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from torch import Tensor

from ...errors import Errors
from ...registry import registry
from ..arrays import check_arrays, check_shapes
from ..config import BiLMConfig
from ..objectives import FullSoftmax, Objective, SampledSoftmax
from .bilm_tf import (
    BYTES,
    CELL,
    OPTIONS,
    VOCAB,
    Arrays,
    ArraysFormat,
    read_sizes,
    read_weights,
)
from .format import folder_of
from .stored import Mix, StoredBiLM, count_numbered
from .tensor_bundle import INDEX, TensorBundle, latest
from .text_files import read_json

_SOFTMAX_W, _SOFTMAX_B = "softmax/W", "softmax/b"
_MIX = ("aggregation/weights", "aggregation/scaling")
_TABLE = "char_embed"
# Beginnings of the names of a biLM's arrays and its softmax. Other arrays do no harm:
# counters and states, for instance.
_WEIGHTS = ("CNN", "RNN", "char_embed", "embedding", "softmax/")
# Endings of the files of a checkpoint.
_PARTS = re.compile(r"\.(index|meta|data-\d+-of-\d+)$")


def _names(
    bundle: TensorBundle, scope: str, others: tuple[str, ...] = ()
) -> dict[str, str]:
    """Return the names of the arrays in a scope of the graph, with the name inside the
    scope, and those of others. Slots of optimizers have names below those of their
    variables, and are left out."""
    return {
        name: name.removeprefix(scope)
        for name in bundle.entries
        if name.startswith((*(scope + each for each in _WEIGHTS), *others))
        and name.rpartition("/")[0] not in bundle.entries
    }


# -- training checkpoints of bilm-tf ----------------------------------------------


@registry.formats("bilm-tf-checkpoint")
class CheckpointFormat(ArraysFormat):
    """A training checkpoint of bilm-tf (a `TrainedFormat`)."""

    name = "bilm-tf-checkpoint"
    layout = f"'{OPTIONS}', 'model.ckpt-...{INDEX}' and '.data-00000-of-00001'"

    def matches(self, path: Path) -> bool:
        """Return whether there are options and an index."""
        if path.is_file() and not (_is_of_folder(path) or _PARTS.search(path.name)):
            return False
        folder = folder_of(path)
        return (folder / OPTIONS).exists() and any(folder.glob(f"*{INDEX}"))

    def open(self, path: Path) -> AbstractContextManager[tuple[Any, Path, Arrays]]:
        """Yield the options, where they are from, and the arrays."""
        options = folder_of(path) / OPTIONS
        return nullcontext((read_json(options), options, _open_checkpoint(path)))

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
            ValueError: [EL022] There is no vocabulary. [EL003] The vocabulary and the
                softmax have different numbers of words. Also as `check_arrays`.
        """
        folder, arrays = folder_of(path), _open_checkpoint(path)
        # The softmax of a model may share the word embedding.
        weight = _SOFTMAX_W if _SOFTMAX_W in arrays.shapes else "embedding"
        rows = (arrays.shapes.get(weight) or (0,))[0]
        if not n_words:
            raise Errors.EL022(path=folder, part="softmax")
        if n_words != rows:
            problem = f"it has {n_words} words for {rows} rows of the softmax"
            raise Errors.EL003(path=folder / VOCAB, problem=problem)
        shapes = {weight: (n_words, width), _SOFTMAX_B: (n_words,)}
        there = {k: shape for k, shape in arrays.shapes.items() if k in shapes}
        check_shapes(arrays.path, there, shapes)
        softmax = _softmax(read_json(folder / OPTIONS), width, n_words)
        found = {name: arrays.read(name) for name in shapes}
        ours = softmax.state_dict()
        expected = {weight: ours["weight"], _SOFTMAX_B: ours["bias"]}
        check_arrays(arrays.path, found, expected)
        softmax.load_state_dict({"weight": found[weight], "bias": found[_SOFTMAX_B]})
        return softmax


def _softmax(options: Any, width: int, n_words: int) -> Objective:
    """Return the softmax of bilm-tf's options. It is sampled, unless the options say
    otherwise or there are not more words than samples."""
    samples = options.get("n_negative_samples_batch")
    is_sampled = options.get("sample_softmax", True) and type(samples) is int
    if is_sampled and 0 < samples < n_words:
        return SampledSoftmax(width, n_words, samples)
    return FullSoftmax(width, n_words)


def _is_of_folder(path: Path) -> bool:
    """Return whether a file is of the whole folder, and not of one checkpoint in it."""
    return path.name in (OPTIONS, "checkpoint")


def _open_checkpoint(path: Path) -> Arrays:
    """Open the checkpoint of a file, or the newest checkpoint of a folder. Raises
    ValueError [EL005] if it is not clear which one."""
    folder = folder_of(path)
    found = [each.with_suffix("") for each in sorted(folder.glob(f"*{INDEX}"))]
    if path.is_file() and not _is_of_folder(path):
        prefix = folder / _PARTS.sub("", path.name)
    else:
        prefix = latest(folder) or (found[0] if len(found) == 1 else folder)
    if prefix not in found:
        names = ", ".join(each.name + INDEX for each in found)
        if prefix != folder:
            names += f", but not {prefix.name}{INDEX}, which is named"
        raise Errors.EL005(path=folder, names=names)
    bundle = TensorBundle(prefix)
    return Arrays(bundle, _names(bundle, "lm/"))


# -- TensorFlow Hub ---------------------------------------------------------------


@registry.formats("tf-hub")
class HubFormat(ArraysFormat):
    """The module `google/elmo` of TensorFlow Hub (a `MixedFormat`)."""

    name = "tf-hub"
    layout = f"'tfhub_module.pb' and 'variables/variables{INDEX}'"

    def matches(self, path: Path) -> bool:
        """Return whether there are a module and its variables."""
        folder = _module_of(path)
        if path.is_file() and path.name not in _MODULE and path.parent == folder:
            return False
        has_module = any((folder / name).exists() for name in _MODULE)
        return has_module and (folder / "variables" / f"variables{INDEX}").exists()

    def open(self, path: Path) -> AbstractContextManager[tuple[Any, Path, Arrays]]:
        """Yield options by the shapes of the arrays, where they are from, and the
        arrays."""
        arrays = _ModuleArrays(_module_of(path))
        return nullcontext((_options_of(arrays), arrays.path, arrays))

    def load(self, path: Path) -> StoredBiLM:
        """Read a model and its trained mix of layers."""
        with self.open(path) as (options, where, arrays):
            config = read_sizes(options, where, arrays)
            mix = _trained_mix(arrays, config.n_layers)
            return StoredBiLM(config, None, None, read_weights(config, arrays), mix)

    def read_mix(self, path: Path) -> Mix | None:
        """Return the mix of layers that was trained with the model, or None."""
        with self.open(path) as (options, where, arrays):
            return _trained_mix(arrays, read_sizes(options, where, arrays).n_layers)


_MODULE = ("tfhub_module.pb", "saved_model.pb")


def _module_of(path: Path) -> Path:
    """Return the folder of a module, from its path or the path of a file in it."""
    folder = path.parent if path.is_file() else path
    return folder.parent if folder.name == "variables" else folder


class _ModuleArrays(Arrays):
    """The arrays of a module. Its character table is the one of bilm-tf's inference,
    which begins with a row for id 0. That row is left out."""

    def __init__(self, folder: Path) -> None:
        bundle = TensorBundle(folder / "variables" / "variables")
        super().__init__(bundle, _names(bundle, "bilm/", _MIX))
        table = self.shapes.get(_TABLE)
        if table and table[0] == BYTES + 1:
            self.shapes[_TABLE] = (BYTES, *table[1:])

    def read(self, name: str) -> Tensor:
        """Read an array. Raises ValueError [EL002] if it is damaged."""
        array = super().read(name)
        return array[-BYTES:] if name == _TABLE else array


def _options_of(arrays: Arrays) -> dict[str, Any]:
    """Return the options of bilm-tf for a module, by the shapes of the arrays. Raises
    ValueError [EL006] if they are not the arrays of a biLM."""
    shapes, published, first = arrays.shapes, BiLMConfig(), CELL.format(0)
    try:
        hidden_dim = shapes[f"{first}/B"][0] // 4
        projection = shapes.get(f"{first}/W_P_0", (hidden_dim, hidden_dim))
        n_filters = count_numbered(shapes, "CNN/W_cnn_{}")
        filters = [shapes[f"CNN/W_cnn_{i}"] for i in range(n_filters)]
        return {
            "lstm": {
                "dim": hidden_dim,
                "projection_dim": projection[1],
                "n_layers": count_numbered(shapes, CELL + "/W_0"),
                "cell_clip": published.cell_clip,
                "proj_clip": published.proj_clip,
                "use_skip_connections": published.skip_connections,
            },
            "char_cnn": {
                "embedding": {"dim": shapes["char_embed"][1]},
                "filters": [[width, n] for _, width, _, n in filters],
                "n_highway": count_numbered(shapes, "CNN_high_{}/W_carry"),
                "max_characters_per_token": published.max_characters,
            },
        }
    except (KeyError, ValueError, IndexError) as error:
        problem = f"lacks arrays of a biLM ({error})"
        raise Errors.EL006(path=arrays.path, problem=problem) from error


def _trained_mix(arrays: Arrays, n_layers: int) -> Mix | None:
    """Return the mix of layers (paper, equation 1) that a module was trained with, or
    None."""
    found = []
    for name, n in zip(_MIX, (n_layers + 1, 1)):
        if (shape := arrays.shapes.get(name)) is None:
            return None
        where = {"path": arrays.path, "name": name}
        if math.prod(shape) != n:
            raise Errors.EL007(**where, found=shape, expected=(n,))
        array = arrays.read(name)
        if not array.isfinite().all():
            raise Errors.EL008(**where)
        found.append(array.flatten().tolist())
    return Mix(tuple(found[0]), found[1][0])
