"""Files: written so that nothing is lost, and read as if a stranger had made them.

atomic.py         files that replace others together, or not at all
folder_lock.py    a folder that one process writes to
checksums.py      checksums inside files, which find damage
untrusted.py      limits, and one message, for what others made
hdf5.py, plots.py HDF5 and plots, written with the same care
"""

from .atomic import (
    Writer,
    folder_that_counts,
    recover,
    sha256,
    sync_folder,
    write_file,
    write_files,
    write_text,
)
from .checksums import (
    add_entry,
    bytes_with_checksum,
    check_entry,
    json_with_checksum,
    read_bytes,
    read_json,
    sha256_of,
)
from .folder_lock import held
from .hdf5 import create_hdf5
from .plots import new_figure
from .plots import save as save_figure
from .untrusted import MAX_JSON, MAX_WORDS, check_plain, coded, reading

__all__ = [
    "MAX_JSON", "MAX_WORDS", "Writer", "add_entry", "bytes_with_checksum",
    "check_entry", "check_plain", "coded", "create_hdf5", "folder_that_counts",
    "held", "json_with_checksum", "new_figure", "read_bytes", "read_json", "reading",
    "recover", "save_figure", "sha256", "sha256_of", "sync_folder", "write_file",
    "write_files", "write_text",
]  # fmt: skip
