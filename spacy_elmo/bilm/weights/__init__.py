"""Reading and writing biLMs, in any format of `registry.formats`.

A format (format.py) turns files into a `StoredBiLM` and back. It makes no model.
"""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import Errors, Warnings
from ...files import named_path
from ...machine import default_settings
from .. import objectives
from ..config import BiLMConfig
from ..objectives import Objective
from . import bilm_tf, many_langs, own, tf_checkpoint  # noqa: F401  (they register)
from .format import (
    Format,
    MixedFormat,
    TrainedFormat,
    WritableFormat,
    find_format,
    folder_of,
    formats,
    not_found,
)
from .own import CARD, FILES
from .stored import DTYPES, Mix, StoredBiLM, checked
from .text_files import read_own_json
from .zips import unpacked

__all__ = [
    "CARD", "FILES", "OWN", "Format", "Mix", "MixedFormat", "StoredBiLM",
    "TrainedFormat", "WritableFormat", "checked", "find_format", "folder_of",
    "has_objective", "load", "load_objective", "not_found", "read_config", "read_mix",
    "read_own_json", "save", "unpacked", "writable_format",
]  # fmt: skip

OWN = own.OwnFormat.name


def read_config(path: str | Path) -> BiLMConfig:
    """Return the sizes of a model. Its weights are not read. Raises as `load`."""
    return find_format(path).read_config(named_path(path))


def read_mix(path: str | Path) -> Mix | None:
    """Return the mix of layers that was trained with a model, or None. Raises as
    `load`."""
    with unpacked(path) as place:
        known = find_format(place)
        return known.read_mix(place) if isinstance(known, MixedFormat) else None


def has_objective(path: str | Path) -> bool:
    """Return whether a model is stored with the objective of its training. Raises as
    `load`."""
    with unpacked(path) as place:
        known = find_format(place)
        if isinstance(known, TrainedFormat):
            return known.has_objective(place)
        return (folder_of(place) / objectives.FILE).exists()


@default_settings()
def load_objective(
    path: str | Path, config: BiLMConfig, vocab: Sequence[str] | None
) -> Objective | None:
    """Return the objective that a model was trained with, or None. It is in evaluation
    mode, and so exact over all words.

    Args:
        path: Model folder, or a file in it.
        config: The sizes of the model.
        vocab: Its words; None if they are not known.

    Raises:
        ValueError: [EL022] The words of a softmax are missing. [EL003] The softmax has
            other words. Also as `objectives.load` and `load`.
    """
    sizes = config.projection_dim, len(vocab or [])
    with unpacked(path) as place:
        known, file = find_format(place), folder_of(place) / objectives.FILE
        if isinstance(known, TrainedFormat):
            has_one = known.has_objective(place)
            return known.load_objective(place, *sizes).eval() if has_one else None
        if vocab is None or not file.exists():
            return None
        return objectives.load(file, *sizes).eval()


@default_settings()
def load(path: str | Path) -> StoredBiLM:
    """Read a model in any format. Its arrays are float32, finite, and fit its sizes.

    Args:
        path: Model folder, or a file in it.

    Raises:
        FileNotFoundError: [EL001] There is no model.
        ValueError: A file is damaged, or the parts of the model don't fit together. The
            message has the code.
    """
    return checked(find_format(path).load(named_path(path)), path)


def save(
    stored: StoredBiLM,
    folder: str | Path,
    *,
    format: str = OWN,
    dtype: str = "float32",
    objective: Objective | None = None,
    card: Mapping[str, Any] | None = None,
) -> str:
    """Write a model. All files in the folder are replaced, or none.

    Args:
        stored: The model.
        folder: The folder to write.
        format: Name of a format that can be written.
        dtype: Dtype of the arrays in the files. They are read as float32.
        objective: The objective of the training, so that training can go on.
        card: The origin of the model. The fingerprint is added to it.

    Returns:
        The fingerprint of the files.

    Raises:
        ValueError: [EL073] There is no such format to write. [EL027] The format can't
            hold the model or the dtype. [EL016] The folder holds a model of another
            format. [EL019] A value is not finite.
        OSError: [EL013] A file can't be written.

    Warns:
        UserWarning: [ELW72] The format can't hold the model's Unicode form. [ELW73] It
            can't hold the mix of layers that was trained with the model.
    """
    writer, folder = writable_format(format), named_path(folder)
    if dtype not in writer.dtypes:
        problem = f"its type is {dtype}, and the format has {', '.join(writer.dtypes)}"
        raise Errors.EL027(format=format, problem=problem)
    if not (writer.keeps_training or (objective is None and card is None)):
        problem = "it has no place for an objective or a card"
        raise Errors.EL027(format=format, problem=problem)
    for name, other in formats().items():
        if name != format and other.matches(folder):
            raise Errors.EL016(path=folder, name=name)
    if stored.form is not None and not writer.keeps_training:
        warnings.warn(Warnings.ELW72(format=format, form=stored.form), stacklevel=2)
    if stored.mix is not None and not isinstance(writer, MixedFormat):
        weights, gamma = [round(w, 4) for w in stored.mix.weights], stored.mix.gamma
        mix = Warnings.ELW73(format=format, weights=weights, gamma=gamma)
        warnings.warn(mix, stacklevel=2)
    stored = stored.to(DTYPES[dtype])
    state = {} if objective is None else objective.state_dict()
    for name, array in [*stored.arrays.items(), *state.items()]:
        if array.is_floating_point() and not array.to(DTYPES[dtype]).isfinite().all():
            raise Errors.EL019(name=name, dtype=dtype)
    writer.save(stored, folder, objective=objective, card=card)
    return stored.fingerprint


def writable_format(name: str) -> WritableFormat:
    """Return the format of a name, to write models. Raises ValueError [EL073] if there
    is no such format, or it is read only."""
    found = formats().items()
    known = {key: each for key, each in found if isinstance(each, WritableFormat)}
    if name not in known:
        raise Errors.EL073(found=name, known=", ".join(known))
    return known[name]
