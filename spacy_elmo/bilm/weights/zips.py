"""Zips of models, as NLPL and ELMoForManyLangs publish them. Read only.

Files are unpacked into a temporary folder, by their names alone, whatever folders the
zip says that they are in, and only those that a model can have. What they hold together
is bounded before any is unpacked, and again while they are.
"""

import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath

from ...errors import Errors
from ...files import check_plain, parsing
from ...registry import registry
from ..config import BiLMConfig
from .format import Format
from .stored import StoredBiLM

# What the files of a model end in.
ENDINGS = (".json", ".hdf5", ".h5", ".txt", ".dic", ".pkl", ".safetensors")
_NOTHING = "it holds no model in a format that is read"
MAX_FILES = 1000
MAX_COMPRESSION = 100  # how many times its zip a model may be


@registry.formats("zip")
class ZipFormat:
    """A zip of a model in any other format (a `Format`)."""

    name = "zip"
    layout = "a '.zip' of any of these, as it is published"

    def matches(self, path: Path) -> bool:
        """Return whether a path is a zip."""
        return path.suffix.lower() == ".zip" and path.is_file()

    def read_config(self, path: Path) -> BiLMConfig:
        """Return the sizes of the model."""
        with _unpacked(path) as folder:
            return _format_in(folder, path).read_config(folder)

    def load(self, path: Path) -> StoredBiLM:
        """Read the model."""
        with _unpacked(path) as folder:
            return _format_in(folder, path).load(folder)


def _format_in(folder: Path, path: Path) -> Format:
    """Return the format of the model that was in a zip. Raises ValueError [EL169] if
    there is none, or there are several."""
    formats = [make() for make in registry.formats.get_all().values()]
    found = [each for each in formats if each.matches(folder)]
    if len(found) != 1:
        names = ", ".join(each.name for each in found)
        problem = f"it holds models in several formats, {names}" if found else _NOTHING
        raise Errors.EL169(path=path, error=problem)
    return found[0]


@contextmanager
def _unpacked(path: Path) -> Iterator[Path]:
    """Unpack a zip into a folder that is removed at the end. Raises ValueError [EL169]
    if it can't be, or is not to be."""
    with tempfile.TemporaryDirectory(prefix="spacy-elmo-") as temporary:
        folder = Path(temporary) / "model"
        folder.mkdir()
        with parsing(Errors.EL169, path):
            check_plain(path)
            with zipfile.ZipFile(path) as archive:
                _unpack(archive, folder, MAX_COMPRESSION * path.stat().st_size)
        try:
            yield folder
        except (FileNotFoundError, ValueError) as error:  # of files that are gone then
            error.args = (str(error).replace(str(folder), str(path)),)
            raise


def _unpack(archive: zipfile.ZipFile, folder: Path, most: int) -> None:
    """Write the files of a model, of `most` bytes together."""
    entries = archive.infolist()
    if len(entries) > MAX_FILES:
        raise ValueError(f"it holds more than {MAX_FILES:,} files")
    chosen: dict[str, zipfile.ZipInfo] = {}
    for entry in entries:
        name = PureWindowsPath(PurePosixPath(entry.filename).name).name
        # macOS puts files of its own beside each.
        if not name.endswith(ENDINGS) or name.startswith(".") or entry.is_dir():
            continue
        if name in chosen:
            raise ValueError(f"it holds several files '{name}', perhaps several models")
        chosen[name] = entry
    if (size := sum(entry.file_size for entry in chosen.values())) > most:
        raise ValueError(f"it unpacks to {size:,} bytes")
    if size > (free := shutil.disk_usage(folder).free):
        raise ValueError(f"it unpacks to {size:,} bytes, and {free:,} are free")
    for name, entry in chosen.items():
        with archive.open(entry) as source, (folder / name).open("wb") as target:
            left = entry.file_size
            while piece := source.read(min(1 << 20, left + 1)):
                left -= len(piece)
                if left < 0:
                    raise ValueError(f"'{name}' unpacks to more than it says")
                target.write(piece)
