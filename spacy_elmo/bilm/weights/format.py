"""The protocol of a weight format, which is a class in `registry.formats`, and the
search for the format of a model.

A package adds a format with an entry point in the group `spacy_elmo_formats`:

    [project.entry-points.spacy_elmo_formats]
    my-format = "my_package.my_format:MyFormat"
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ...errors import ElmoError, Errors
from ...files import folder_that_counts, named_path
from ...registry import registry
from ..config import BiLMConfig
from ..objectives import Objective
from .stored import Mix, StoredBiLM

# Endings of packed files, but for zips.
PACKED = (".gz", ".tgz", ".tar", ".bz2", ".xz")


class Format(Protocol):
    """A format that biLMs are read from. A path is a folder, or a file in it. No folder
    may match two formats.

    A format may also have `files`, patterns of the names of its files, such as
    "*.npz". They are read from zips then.

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
        keeps_training: Whether it can store the objective, the card and the Unicode
            form. A format without this attribute is read only.
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
        """Write all files of a model, or none. Remove what is left of the model before,
        also `softmax.safetensors` and `card.json`.

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


def find_format(path: str | Path) -> Format:
    """Return the format of a model.

    Args:
        path: Model folder, or a file in it.

    Raises:
        FileNotFoundError: [EL001] It is a model in no format.
        ValueError: [EL002] The folder can't be read. [EL005] It holds models in several
            formats. [EL168] It is packed, but not as a zip.
    """
    path = named_path(path)
    try:
        found = [known for known in formats().values() if known.matches(path)]
    except OSError as error:  # no permission, a name that is too long
        raise Errors.EL002(path=path, format="a biLM", error=error) from error
    if not found:
        is_packed = path.suffix in PACKED and path.is_file()
        packed = [path] if is_packed else sorted(path.glob("*.h*5.gz"))
        if packed:
            raise Errors.EL168(path=packed[0])
        raise not_found(path)
    if len(found) > 1:
        names = ", ".join(f"one in the format {known.name}" for known in found)
        raise Errors.EL005(path=path, names=names)
    return found[0]


def not_found(path: str | Path, names: Sequence[str] = ()) -> ElmoError:
    """Return the error [EL001] for a path that is a model in no format. names: shipped
    models that the user may have meant."""
    layouts = "; ".join(f"{f.layout} ({name})" for name, f in formats().items())
    named = f" The biLMs in this package are {', '.join(names)}." if names else ""
    path = Path(path).absolute()  # a relative path depends on the working folder
    if (best := path / "model-best").is_dir():
        named += f" '{best}' may be what you mean."
    if (path / "config.cfg").is_file():
        named += (
            f" '{path}' is a pipeline: after nlp = spacy.load('{path}'), "
            "nlp.get_pipe('elmo').bilm.save(FOLDER) writes its biLM."
        )
    return Errors.EL001(path=path, layouts=layouts, names=named)


def formats() -> dict[str, Format]:
    """Return all formats by name, those of other packages too."""
    return {name: make() for name, make in sorted(registry.formats.get_all().items())}
