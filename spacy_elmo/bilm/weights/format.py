"""What a weight format is: a class in one file, registered in `registry.formats`.

Another package adds a format by an entry point in the group `spacy_elmo_formats`:

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
        name: As registered.
        layout: The files of a model, for messages.
    """

    name: str
    layout: str

    def matches(self, path: Path) -> bool:
        """Return whether a path is a model in this format, by the names of files."""
        ...

    def read_config(self, path: Path) -> BiLMConfig:
        """Return the sizes of a model without reading its weights."""
        ...

    def load(self, path: Path) -> StoredBiLM:
        """Read a model. `weights.load` checks what comes out: names and shapes, finite
        values, the number of words and characters."""
        ...


@runtime_checkable
class TrainedFormat(Format, Protocol):
    """A format with a place of its own for what a model was trained with. Other formats
    have `softmax.safetensors` beside the weights."""

    def has_objective(self, path: Path) -> bool:
        """Return whether a model has an objective."""
        ...

    def load_objective(self, path: Path, width: int, n_words: int) -> Objective:
        """Read the objective, which predicts n_words words (0 if the words are not
        known) from vectors of a width."""
        ...


@runtime_checkable
class MixedFormat(Format, Protocol):
    """A format that can hold the mix of layers that was trained with a model."""

    def read_mix(self, path: Path) -> Mix | None:
        """Return the mix without reading the weights, None if there is none."""
        ...


@runtime_checkable
class WritableFormat(Format, Protocol):
    """A format that biLMs are also written in.

    Attributes:
        dtypes: The dtypes that arrays can have in it.
        keeps_training: Whether it has a place for the objective and the card.
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
        """Write a model, all of it or nothing. Its arrays are finite and of one of the
        dtypes; the objective and the card are None unless the format keeps them."""
        ...


def folder_of(path: Path) -> Path:
    """Return the folder that a file is in, or the folder itself, as it was before a
    save that was killed half-way."""
    return folder_that_counts(path.parent if path.is_file() else path)
