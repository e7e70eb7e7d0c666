"""What a weight format is: a class in one file, registered in `registry.formats`.

Another package adds a format by an entry point in the group `spacy_elmo_formats`:

    [project.entry-points.spacy_elmo_formats]
    my-format = "my_package.my_format:MyFormat"
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ...errors import Errors
from ...registry import registry
from ..config import BiLMConfig
from ..objectives import Objective
from .stored import StoredBiLM


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
        """Read a model. `files.load` checks what comes out: names and shapes, finite
        values, the number of words and characters."""
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
    """Return the folder that a file is in, or the folder itself."""
    return path.parent if path.is_file() else path


def formats() -> dict[str, Format]:
    """Return an instance of every format that is installed, by name."""
    return {name: make() for name, make in sorted(registry.formats.get_all().items())}


def not_found(path: str | Path, names: Sequence[str] = ()) -> FileNotFoundError:
    """Return the error [EL001] of a path that is a model in no format.

    Args:
        path: Where none was found.
        names: Names of shipped models that could have been meant.
    """
    layouts = "; ".join(f"{f.layout} ({name})" for name, f in formats().items())
    named = f" The biLMs in this package are {', '.join(names)}." if names else ""
    return FileNotFoundError(
        Errors.EL001.format(path=path, layouts=layouts, names=named)
    )
