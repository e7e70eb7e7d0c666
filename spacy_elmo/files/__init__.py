"""Files: written so that nothing is lost, and read as if a stranger had made them.

atomic.py         files that replace others together, or not at all
locks.py          files and folders that one process writes to
checksums.py      checksums inside files, which find damage
untrusted.py      limits, and one message, for what others made
paths.py          paths as users write them
hdf5.py, plots.py HDF5 and plots, written with the same care
"""

from .atomic import (
    Writer,
    folder_that_counts,
    publish,
    recover,
    sync_folder,
    write_file,
    write_files,
)
from .checksums import (
    add_entry,
    bytes_of,
    bytes_with_checksum,
    check_entry,
    json_with_checksum,
    new_checksum,
    read_bytes,
    read_json,
    sha256,
    sha256_of,
)
from .hdf5 import create_hdf5
from .locks import held, lock
from .paths import named_path
from .plots import new_figure
from .plots import save as save_figure
from .untrusted import (
    MAX_JSON,
    MAX_WORDS,
    check_plain,
    decode,
    encoding_of,
    parsing,
    reading,
)

__all__ = [
    "MAX_JSON", "MAX_WORDS", "Writer", "add_entry", "bytes_of", "bytes_with_checksum",
    "check_entry", "check_plain", "create_hdf5", "decode", "encoding_of",
    "folder_that_counts", "held", "json_with_checksum", "lock", "named_path",
    "new_checksum", "new_figure", "parsing", "publish", "read_bytes", "read_json",
    "reading", "recover", "save_figure", "sha256", "sha256_of", "sync_folder",
    "write_file", "write_files",
]  # fmt: skip
