"""Zips of models, as NLPL and ELMoForManyLangs publish them. Read only.

The files that a model can have are unpacked into a temporary folder. There they are
read as any folder is: the model, its mix, its objective and its card. Only the names of
files are used, not the folders that the zip gives. Their size is checked before they
are unpacked.
"""

import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath, PureWindowsPath

from ...errors import Errors
from ...files import check_plain, named_path, parsing
from ...registry import registry
from ..config import BiLMConfig
from .format import find_format, formats
from .stored import StoredBiLM

WEIGHTS = (".hdf5", ".h5", ".pkl", ".safetensors")  # endings of their files
OTHERS = (".json", ".txt", ".dic")  # endings of the files beside them
# Names of the files of a training checkpoint. They are not those of a module of
# TensorFlow Hub, which is found by its folder.
CHECKPOINT = re.compile(r"checkpoint|.*\.(index|data-\d+-of-\d+)")
MAX_FILES = 1000  # most files in a zip
MAX_COMPRESSION = 100  # largest ratio of a model's size to the size of its zip


@registry.formats("zip")
class ZipFormat:
    """A zip of a model in any other format (a `Format`)."""

    name = "zip"
    layout = "a '.zip' of one of these, but not of tf-hub"

    def matches(self, path: Path) -> bool:
        """Return whether a path is a zip."""
        return _is_zip(path)

    def read_config(self, path: Path) -> BiLMConfig:
        """Return the sizes of the model."""
        with unpacked(path) as folder:
            return find_format(folder).read_config(folder)

    def load(self, path: Path) -> StoredBiLM:
        """Read the model."""
        with unpacked(path) as folder:
            return find_format(folder).load(folder)


def _is_zip(path: Path) -> bool:
    with suppress(OSError):  # no permission, a name that is too long
        return path.suffix.lower() == ".zip" and path.is_file()
    return False


@contextmanager
def unpacked(path: str | Path) -> Iterator[Path]:
    """Yield a path, or, of a zip, a folder with its files, which is removed at the end.
    Raises ValueError [EL169] if the zip is damaged, or would take too much room."""
    path = named_path(path)
    if not _is_zip(path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="spacy-elmo-") as temporary:
        folder = Path(temporary) / path.name  # which warnings show
        folder.mkdir()
        with parsing(Errors.EL169, path):
            check_plain(path)
            with zipfile.ZipFile(path) as archive:
                _unpack(archive, folder, MAX_COMPRESSION * path.stat().st_size)
        try:
            yield folder
        except (FileNotFoundError, ValueError) as error:  # name the zip, not the folder
            error.args = (str(error).replace(str(folder), str(path)),)
            raise


def _unpack(archive: zipfile.ZipFile, folder: Path, most: int) -> None:
    """Write the files of a model. most: largest number of bytes of all together."""
    entries = archive.infolist()
    if len(entries) > MAX_FILES:
        raise ValueError(f"it holds more than {MAX_FILES:,} files")
    files = [(_name_of(entry), entry) for entry in entries if not entry.is_dir()]
    files = [file for file in files if not file[0].startswith(".")]  # those of macOS
    # Weights that were made of a checkpoint may be in a zip with it. They are read.
    has_weights = any(name.endswith(WEIGHTS) for name, _ in files)
    of_others = [p for known in formats().values() for p in getattr(known, "files", ())]
    chosen: dict[str, zipfile.ZipInfo] = {}
    for name, entry in files:
        is_checkpoint = CHECKPOINT.fullmatch(name) and not has_weights
        is_ours = name.endswith(WEIGHTS + OTHERS) or is_checkpoint
        if not (is_ours or any(fnmatchcase(name, p) for p in of_others)):
            continue
        if name in chosen:
            raise ValueError(f"it holds several files '{name}', perhaps several models")
        chosen[name] = entry
    if (size := sum(entry.file_size for entry in chosen.values())) > most:
        raise ValueError(f"it unpacks to {size:,} bytes")
    if size > (free := shutil.disk_usage(folder).free):
        raise ValueError(f"it unpacks to {size:,} bytes, and {free:,} are free")
    for name, entry in chosen.items():
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            # zipfile unpacks a piece of the other kinds whole, of whatever size.
            raise ValueError(f"'{name}' is not packed as zips usually are, by deflate")
        # It reads as many bytes as the entry says, and compares their checksum.
        with archive.open(entry) as source, (folder / name).open("wb") as target:
            shutil.copyfileobj(source, target)


def _name_of(entry: zipfile.ZipInfo) -> str:
    return PureWindowsPath(PurePosixPath(entry.filename).name).name
