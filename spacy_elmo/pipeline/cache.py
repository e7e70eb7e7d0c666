"""Layers of sentences, kept for the next epoch or the next run.

With a frozen biLM a sentence always has the same layers, so a corpus that is read many
times need be encoded only once. Layers are kept in memory, or in one SQLite file.
Several processes can use the file at once, a write is whole or not there, and SQLite
itself sees to it that the file grows no larger than it may.

Shapes: L1 layers (the token layer included), T tokens of a sentence, N of all
sentences, D width.
"""

import hashlib
import os
import sqlite3
import time
import warnings
import weakref
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from thinc.api import to_numpy
from thinc.types import Floats3d

from ..bilm import check_at_least
from ..bilm.kernels import choices
from ..errors import Errors, Warnings
from ..files import named_path
from ..machine import ProcessLock
from .encoder import Encoder, LayerBatch, Sentences, shim_of
from .shim import BiLMShim, to_array

# The version of this package that last changed a bit of any vector. What a cache holds
# of other versions is not found.
VECTORS_OF = "0.1.0"


class LayerCache(ABC):
    """Keeps layers of sentences, each float32 (L1, T, D).

    When it is full it takes no more. An epoch reads the sentences of the epoch before
    in the same order, so the oldest would always be gone when its turn comes.

    Args:
        where: Where it is, for messages.
        max_bytes: Size of it at most.
    """

    def __init__(self, where: str, max_bytes: int) -> None:
        self.where, self.max_bytes = where, max_bytes
        self.hits = self.misses = 0  # sentences that were found, and that were not
        self._is_full = False

    @abstractmethod
    def use(self, context: bytes) -> None:
        """Prepare for sentences of a context: certain weights, and how they are
        computed with."""

    @abstractmethod
    def read(self, keys: Sequence[bytes]) -> dict[bytes, Any]:
        """Return the layers that are there."""

    @abstractmethod
    def write(self, layers: Mapping[bytes, Any]) -> None:
        """Keep layers; warn [ELW07], once, when there is no more room."""

    def predict(self, encoder: Encoder, sentences: Sentences) -> Floats3d:
        """Return the layers of sentences, (L1, N, D): the kept ones, and the others
        computed. Keep those, unless another thread changed the weights meanwhile.

        Raises:
            ValueError: [EL086] The cache is damaged.
            OSError: [EL087] It can't be used.
        """
        shim = shim_of(encoder)
        weights = list(shim.bilm.parameters())
        before, context = shim.state(), context_of(shim)
        self.use(key_of(context, []))
        device, (tokens, rows, lengths) = shim.bilm.device, sentences
        # By the words as they are read: both Unicode forms of a word have one vector.
        keys = [key_of(context, shim.bilm.as_read(sentence)) for sentence in tokens]
        known = self.read(keys)
        self.hits += len(known)
        self.misses += len({*keys}) - len(known)
        new = [s for s, key in enumerate(keys) if key not in known]
        old = [s for s, key in enumerate(keys) if key in known]
        layers_LND: Any = encoder.layers[0].predict(
            Sentences([tokens[s] for s in new], [rows[s] for s in new], lengths)
        )
        computed: dict[bytes, Any] = {}
        if new:
            rows_of = {keys[s]: rows[s] for s in new}  # of each sentence once
            from_N = to_array(np.concatenate(list(rows_of.values())), device)
            own = LayerBatch(layers_LND[:, from_N], list(map(len, rows_of.values())))
            computed = dict(zip(rows_of, own))
        if old:
            kept = [known[keys[s]] for s in old]
            if any(each.shape[1] != len(rows[s]) for each, s in zip(kept, old)):
                problem = "a sentence has layers of another length"
                raise Errors.EL086(where=self.where, error=problem)
            if isinstance(kept[0], np.ndarray):  # of a file
                kept_LND = to_array(np.concatenate(kept, axis=1), device)
            else:
                kept_LND = encoder.ops.xp.concatenate(kept, axis=1)
            to_N = to_array(np.concatenate([rows[s] for s in old]), device)
            layers_LND[:, to_N] = kept_LND
        if shim.state() == before:
            self.write(computed)
        del weights  # they were alive until here: see `BiLMShim.state`
        # On a GPU, the copies of cached layers are queued before anything reads them.
        return layers_LND

    def _warn_full(self, error: object) -> None:
        self._is_full = True
        values = {"where": self.where, "mb": self.max_bytes >> 20}
        warnings.warn(Warnings.ELW07(error=error, **values), stacklevel=4)


class MemoryCache(LayerCache):
    """A layer cache in memory, on the device that the layers are on."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__("in memory", max_bytes)
        self._context: bytes | None = None
        self.use(b"")

    def use(self, context: bytes) -> None:
        """Forget what belongs to another context: other weights, or settings."""
        if context != self._context:
            self._context = context
            self._layers: dict[bytes, Any] = {}
            self._n_bytes = 0
            self._is_full = False

    def read(self, keys: Sequence[bytes]) -> dict[bytes, Any]:
        """Return the layers that are there."""
        layers = self._layers  # another thread may begin another context
        return {key: layers[key] for key in keys if key in layers}

    def write(self, layers: Mapping[bytes, Any]) -> None:
        """Keep layers; warn [ELW07], once, when there is no more room."""
        if self._is_full:
            return
        n_bytes = sum(layers_LTD.nbytes for layers_LTD in layers.values())
        fits = self._n_bytes + n_bytes <= self.max_bytes
        for key, layers_LTD in layers.items():
            if key in self._layers:
                continue
            if self._n_bytes + layers_LTD.nbytes > self.max_bytes:
                self._warn_full("full")
                return
            # They are parts of one array, which would stay in memory as a whole.
            self._layers[key] = layers_LTD if fits else layers_LTD.copy()
            self._n_bytes += layers_LTD.nbytes


def key_of(context: str, tokens: Sequence[str]) -> bytes:
    """Return the key of a sentence, whose layers depend on a context and its tokens."""
    digest = hashlib.sha256(context.encode())
    for token in tokens:
        data = token.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.digest()


def context_of(shim: BiLMShim) -> str:
    """Return a text of everything that layers depend on beside the tokens: the weights,
    and how they are computed with, down to the rounding."""
    with torch.no_grad():
        parts_of = choices(shim.bilm.fast.dispatch_key(), shim.bilm.config, 1)
        kernels = [choose() for choose in parts_of.values()]
    device = shim.bilm.device
    is_gpu = device.type == "cuda"  # GPUs round differently
    parts = (
        VECTORS_OF,
        shim.fingerprint(),
        "",  # a part of the keys of older caches
        shim.bilm.precision,
        f"cuda {torch.cuda.get_device_name(device)}" if is_gpu else device.type,
        torch.__version__,
        torch.backends.cpu.get_cpu_capability(),
        *kernels,
    )
    return " ".join(map(str, parts))


# -- in a file -------------------------------------------------------------------

PAGE_BYTES = 1 << 16  # SQLite's largest: layers of a sentence take a few of them
MAPPED_BYTES = 1 << 31  # of the file, which is SQLite's most; the rest is read
# SQLite writes into a second file, and moves what is there into the first when it is
# about as large as this. The second file takes room, too.
WRITTEN_BYTES = 8 << 20
WAIT = 60.0  # seconds for another process's write
KEYS_PER_QUERY = 500  # one query with many keys is faster than many queries
NO_ROOM = "full", "disk I/O error"  # SQLite's words, the second for quotas
COLUMNS = "checksum INTEGER, n_layers INTEGER, width INTEGER, data BLOB"
TABLES = (
    f"CREATE TABLE layers (key BLOB PRIMARY KEY, {COLUMNS})",
    "CREATE TABLE contexts (context BLOB PRIMARY KEY)",
)
SETTINGS = f"""
    PRAGMA page_size = {PAGE_BYTES};
    PRAGMA journal_mode = WAL;  -- reading while another writes
    PRAGMA wal_autocheckpoint = {WRITTEN_BYTES // PAGE_BYTES};
    PRAGMA synchronous = NORMAL;
    PRAGMA mmap_size = {MAPPED_BYTES};
""" + ";".join(TABLES).replace("TABLE", "TABLE IF NOT EXISTS")

# SQLite keeps what it knows of open files, and the locks on them, once for a whole
# process, and a fork would copy that. So there is one lock for all, and files are
# closed before a fork (they open again by themselves).
_lock = ProcessLock()
_caches: "weakref.WeakSet[FileCache]" = weakref.WeakSet()


class FileCache(LayerCache):
    """A layer cache in a file, which need not be there yet. What is just being written
    stands beside it, some WRITTEN_BYTES.

    Its methods raise ValueError [EL086] if the file is damaged, and OSError [EL087] if
    it can't be used.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        super().__init__(f"'{path}'", max_bytes)
        self.path = path.absolute()  # it opens again after the folder was changed
        self._opened: sqlite3.Connection | None = None
        self._contexts: set[bytes] = set()
        _close_before_forks()
        with _lock:
            _caches.add(self)

    def use(self, context: bytes) -> None:
        """Warn [ELW08], once, if all that is in the file belongs to other contexts, so
        nothing of it will be found."""
        if context in self._contexts:
            return
        self._contexts.add(context)
        with self._database() as db:
            known = {row[0] for row in db.execute("SELECT * FROM contexts")}
            if context not in known:
                with self._writing(db):
                    db.execute("INSERT OR IGNORE INTO contexts VALUES (?)", [context])
        if known and context not in known:
            warnings.warn(Warnings.ELW08(where=self.where), stacklevel=2)

    def read(self, keys: Sequence[bytes]) -> dict[bytes, np.ndarray]:
        """Return the layers that are there."""
        found: dict[bytes, np.ndarray] = {}
        with self._database() as db:
            for start in range(0, len(keys), KEYS_PER_QUERY):
                some = keys[start : start + KEYS_PER_QUERY]
                marks = ",".join("?" * len(some))
                query = f"SELECT * FROM layers WHERE key IN ({marks})"  # noqa: S608
                for key, checksum, n_layers, width, data in db.execute(query, some):
                    if _checksum(key, n_layers, width, data) != checksum:
                        raise sqlite3.DatabaseError("a checksum is wrong")
                    values = np.frombuffer(data, dtype=np.float32)
                    found[key] = values.reshape(n_layers, -1, width)
        return found

    def write(self, layers: Mapping[bytes, Any]) -> None:
        """Keep layers; warn [ELW07], once, when there is no more room."""
        if self._is_full:
            return
        most, written = min(self.max_bytes // 8, WRITTEN_BYTES), 0
        with self._database() as db, self._writing(db):
            for key, layers_LTD in layers.items():
                array = np.ascontiguousarray(to_numpy(layers_LTD), dtype=np.float32)
                n_layers, _, width = array.shape
                data = array.tobytes()
                row = key, _checksum(key, n_layers, width, data), n_layers, width, data
                if written + len(data) > most:
                    db.commit()
                    written = 0
                db.execute("INSERT OR IGNORE INTO layers VALUES (?, ?, ?, ?, ?)", row)
                written += len(data)

    @contextmanager
    def _writing(self, db: sqlite3.Connection) -> Iterator[None]:
        """Commit what the body writes. Warn [ELW07] if there is no room."""
        try:
            with db:
                yield
        except sqlite3.OperationalError as error:
            if not any(sign in str(error) for sign in NO_ROOM):
                raise
            self._warn_full(error)

    def open(self) -> None:
        """Open the file, or make it."""
        with self._database():
            pass

    def close(self) -> None:
        """Close the file. It opens again when it is used again."""
        with _lock:
            self._close()

    def _close(self) -> None:
        if self._opened is not None:
            self._opened.close()
        self._opened = None

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection, for this thread alone, and make errors clear."""
        try:
            with _lock:
                if self._opened is None:
                    self._opened = self._open()
                yield self._opened
        # Locked, no permission, no folder.
        except (sqlite3.OperationalError, OSError) as error:
            raise Errors.EL087(where=self.where, error=error) from error
        # Damaged: a value of a row may be of any type.
        except (sqlite3.DatabaseError, ValueError, TypeError, OverflowError) as error:
            raise Errors.EL086(where=self.where, error=error) from error

    def _open(self) -> sqlite3.Connection:
        """Connect with patience: SQLite's own does not cover the first moments of a
        file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        until = time.monotonic() + WAIT
        while True:
            try:
                db = sqlite3.connect(self.path, timeout=WAIT, check_same_thread=False)
                _check_tables(db)  # before anything is changed in it
                db.executescript(SETTINGS)
                _check_tables(db)
                (page_bytes,) = db.execute("PRAGMA page_size").fetchone()
                pages = max(4, self.max_bytes // page_bytes)
                db.execute(f"PRAGMA max_page_count = {pages}")
                return db
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > until:
                    raise
            time.sleep(0.02)


def open_cache(where: str | Path, mb: float) -> LayerCache:
    """Return a cache in memory or, if it can be used, in a file. Arguments and errors
    are those of `Elmo.use_layer_cache`."""
    check_at_least(0, layer_cache_mb=mb)
    max_bytes = int(mb * (1 << 20))
    if where == "memory":
        return MemoryCache(max_bytes)
    cache = FileCache(named_path(where), max_bytes)
    cache.open()  # or say at once why not
    return cache


def _check_tables(db: sqlite3.Connection) -> None:
    """Raise DatabaseError if there is anything but the tables: a view, a trigger or a
    computed column in a file from others can take all time and memory."""
    made = db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
    found, ours = (
        {"".join(t.split()) for t in some} for some in (chain(*made), TABLES)
    )
    if found - ours:
        raise sqlite3.DatabaseError("it has other tables than a layer cache")


def _checksum(key: bytes, n_layers: int, width: int, data: bytes) -> int:
    """Return a checksum of all of a row: of a damaged file not even the index can be
    trusted."""
    return zlib.crc32(data, zlib.crc32(b"%s %d %d" % (key, n_layers, width)))


@cache
def _close_before_forks() -> None:
    """See to it that files are closed before each fork, from the first cache on."""
    if hasattr(os, "register_at_fork"):  # where there is no fork there is no need
        os.register_at_fork(before=_before_fork, after_in_parent=_lock.__exit__)


def _before_fork() -> None:
    _lock.__enter__()
    for each in list(_caches):
        each._close()  # noqa: SLF001 (the lock is held)
