"""The protocol of a weight format, which is a class in `registry.formats`.

A package adds a format with an entry point in the group `spacy_elmo_formats`:

    [project.entry-points.spacy_elmo_formats]
    my-format = "my_package.my_format:MyFormat"
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ...files import folder_that_counts
from ..config import BiLMConfig
from ..objectives import Objective
from .stored import Mix, StoredBiLM


class Format(Protocol):
    """A format that biLMs are read from. A path is a folder, or a file in it.

    Attributes:
        name: The registered name.
        layout: Names of the files of a model, for messages.
    """

    name: str
    layout: str

    def matches(self, path: Path) -> bool:
        """Return whether a path is a model in this format. Names of files decide."""
        ...

    def read_config(self, path: Path) -> BiLMConfig:
        """Return the sizes of a model. Weights need not be read."""
        ...

    def load(self, path: Path) -> StoredBiLM:
        """Read a model. `weights.load` then checks names and shapes, finite values, and
        the number of words and characters."""
        ...


@runtime_checkable
class TrainedFormat(Format, Protocol):
    """A format that stores the objective of the training itself. Other formats have
    `softmax.safetensors` beside the weights."""

    def has_objective(self, path: Path) -> bool:
        """Return whether a model has an objective."""
        ...

    def load_objective(self, path: Path, width: int, n_words: int) -> Objective:
        """Read the objective of a model.

        Args:
            path: Model folder, or a file in it.
            width: Size of the vectors that are predicted from.
            n_words: Size of the vocabulary; 0 if the words are not known.
        """
        ...


@runtime_checkable
class MixedFormat(Format, Protocol):
    """A format that can store a trained mix of layers."""

    def read_mix(self, path: Path) -> Mix | None:
        """Return the mix of a model, or None. Weights need not be read."""
        ...


@runtime_checkable
class WritableFormat(Format, Protocol):
    """A format that biLMs are also written in.

    Attributes:
        dtypes: The dtypes of arrays that it can store.
        keeps_training: Whether it can store the objective and the card.
    """

    dtypes: Sequence[str]
    keeps_training: bool

    def save(
        self,
        stored: StoredBiLM,
        folder: Path,
        *,
        objective: Objective | None = None,
        card: Mapping[str, Any] | None = None,
    ) -> None:
        """Write all files of a model, or none.

        Args:
            stored: The model. Its arrays are finite, and have one of the dtypes.
            folder: The folder to write.
            objective: The objective; always None unless `keeps_training`.
            card: The card; always None unless `keeps_training`.
        """
        ...


def folder_of(path: Path) -> Path:
    """Return a folder, or the folder of a file. If a save was killed half-way, return
    the folder that has the files from before."""
    return folder_that_counts(path.parent if path.is_file() else path)
