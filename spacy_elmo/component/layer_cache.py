"""Layers of sentences, kept for the next epoch or the next run.

With a frozen biLM a sentence always has the same layers, so a corpus that is read many
times need be encoded once. Kept in SQLite, in memory or in one file: several processes
can use a file at once, a write is whole or not there, and SQLite itself sees to it that
it grows no larger than it may.

Shapes: L1 layers (the token layer included), T tokens of a sentence, D width.
"""

import hashlib
import os
import sqlite3
import threading
import time
import warnings
import weakref
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import Errors, Warnings

PAGE_BYTES = 1 << 16  # SQLite's largest: layers of a sentence take a few of them
MAPPED_BYTES = 1 << 31  # of the file, which is SQLite's most; the rest is read
WRITTEN_BYTES = 8 << 20  # at once, about: what is not yet in its place takes room too
WAIT = 60.0  # seconds for another process's write
AT_ONCE = 500  # keys in one question
NO_ROOM = "full", "disk I/O error"  # SQLite's words, the second for quotas


class LayerCache:
    """path: the file, None for memory. max_bytes: its size at most; what is just being
    written stands beside it, some WRITTEN_BYTES. When it is full, it takes no more,
    since what an epoch reads is read again in the same order, and the oldest would
    always be gone when its turn comes."""

    def __init__(self, path: Path | None, max_bytes: int) -> None:
        self.path, self.max_bytes = path, max_bytes
        self.is_full = False
        self.hits = self.misses = 0
        self._lock = threading.Lock()
        self._opened: tuple[int, sqlite3.Connection] | None = None
        self._contexts: set[str] = set()
        _all.add(self)

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "max_bytes": self.max_bytes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @staticmethod
    def key(context: str, tokens: Sequence[str]) -> bytes:
        """context: whatever else than the tokens the layers depend on."""
        digest = hashlib.sha256(context.encode())
        for token in tokens:
            data = token.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "little") + data)
        return digest.digest()

    def check_context(self, context: str) -> None:
        """Warns [ELW08], once, if all that is in the file was computed in other
        contexts, so nothing of it will be found. Raises as `read`."""
        if self.path is None or context in self._contexts:
            return
        self._contexts.add(context)
        ours = self.key(context, [])
        no_room = None
        with self._lock, self._clear_errors():
            known = {row[0] for row in self._db().execute("SELECT * FROM contexts")}
            if ours not in known:
                no_room = self._insert("contexts VALUES (?)", [(ours,)])
        self._warn_of(no_room)
        if known and ours not in known:
            warnings.warn(Warnings.ELW08.format(where=self._where), stacklevel=2)

    def read(self, keys: Sequence[bytes]) -> dict[bytes, np.ndarray]:
        """Those that are there, each float32 (L1, T, D). Raises ValueError [EL086] if
        the file is damaged, OSError [EL087] if it can't be opened."""
        found: dict[bytes, np.ndarray] = {}
        wanted = list(dict.fromkeys(keys))
        with self._lock, self._clear_errors():
            for start in range(0, len(wanted), AT_ONCE):
                some = wanted[start : start + AT_ONCE]
                marks = ",".join("?" * len(some))
                question = f"SELECT * FROM layers WHERE key IN ({marks})"
                for key, checksum, n_layers, width, data in self._db().execute(
                    question, some
                ):
                    if _checksum(key, n_layers, width, data) != checksum:
                        raise sqlite3.DatabaseError("a checksum is wrong")
                    values = np.frombuffer(data, dtype=np.float32)
                    found[key] = values.reshape(n_layers, -1, width)
        self.hits += len(found)
        self.misses += len(wanted) - len(found)
        return found

    def write(self, layers: Mapping[bytes, np.ndarray]) -> None:
        """Raises as `read`; warns [ELW07] once when no more go in."""
        if self.is_full or not layers:
            return
        with self._lock, self._clear_errors():
            for rows in _few_at_once(map(_row, layers.items()), self.max_bytes // 8):
                no_room = self._insert("layers VALUES (?, ?, ?, ?, ?)", rows)
                if no_room:
                    break
        self._warn_of(no_room)

    def _insert(self, what: str, rows: Sequence[tuple[Any, ...]]) -> Exception | None:
        """In one transaction. RETURNS: the error if there is no room."""
        try:
            with self._db() as db:
                db.executemany(f"INSERT OR IGNORE INTO {what}", rows)
        except sqlite3.OperationalError as error:
            if not any(sign in str(error) for sign in NO_ROOM):
                raise
            self.is_full = True
            return error
        return None

    def _warn_of(self, no_room: Exception | None) -> None:
        """Not while the lock is held: nobody knows what a warning sets off."""
        if no_room is not None:
            mb = self.max_bytes >> 20
            message = Warnings.ELW07.format(where=self._where, mb=mb, error=no_room)
            warnings.warn(message, stacklevel=3)

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._opened is not None and self._opened[0] == os.getpid():
            self._opened[1].close()
        self._opened = None

    @property
    def _where(self) -> str:
        return "in memory" if self.path is None else f"'{self.path}'"

    def _db(self) -> sqlite3.Connection:
        # A connection must not be carried into another process.
        if self._opened is None or self._opened[0] != os.getpid():
            self._opened = os.getpid(), self._open()
        return self._opened[1]

    def _open(self) -> sqlite3.Connection:
        """SQLite's own patience does not cover the first moments of a file."""
        until = time.monotonic() + WAIT
        while True:
            try:
                return self._connect()
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > until:
                    raise
            time.sleep(0.02)

    def _connect(self) -> sqlite3.Connection:
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        where = ":memory:" if self.path is None else str(self.path)
        db = sqlite3.connect(where, timeout=WAIT, check_same_thread=False)
        db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        if self.path is not None:
            db.execute("PRAGMA journal_mode = WAL")  # reading while another writes
            db.execute(f"PRAGMA wal_autocheckpoint = {WRITTEN_BYTES // PAGE_BYTES}")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute(f"PRAGMA mmap_size = {MAPPED_BYTES}")
        db.execute(
            "CREATE TABLE IF NOT EXISTS layers (key BLOB PRIMARY KEY, checksum INTEGER,"
            " n_layers INTEGER, width INTEGER, data BLOB)"
        )
        db.execute("CREATE TABLE IF NOT EXISTS contexts (context BLOB PRIMARY KEY)")
        (page_bytes,) = db.execute("PRAGMA page_size").fetchone()
        db.execute(f"PRAGMA max_page_count = {max(4, self.max_bytes // page_bytes)}")
        return db

    @contextmanager
    def _clear_errors(self) -> Any:
        try:
            yield
        # Locked, no permission, no folder.
        except (sqlite3.OperationalError, OSError) as error:
            raise OSError(
                Errors.EL087.format(where=self._where, error=error)
            ) from error
        except (sqlite3.DatabaseError, ValueError) as error:
            raise ValueError(
                Errors.EL086.format(where=self._where, error=error)
            ) from error


Row = tuple[bytes, int, int, int, bytes]


def _row(entry: tuple[bytes, np.ndarray]) -> Row:
    key, layers_LTD = entry
    data = np.ascontiguousarray(layers_LTD, dtype=np.float32).tobytes()
    n_layers, _, width = layers_LTD.shape
    return key, _checksum(key, n_layers, width, data), n_layers, width, data


def _checksum(key: bytes, n_layers: int, width: int, data: bytes) -> int:
    """Of all of a row: of a damaged file not even the index can be trusted."""
    return zlib.crc32(data, zlib.crc32(b"%s %d %d" % (key, n_layers, width)))


def _few_at_once(rows: Iterable[Row], max_bytes: int) -> Iterator[list[Row]]:
    """Lists of rows, of max_bytes and WRITTEN_BYTES at most (or of one row)."""
    some: list[Row] = []
    n_bytes = 0
    for row in rows:
        if some and n_bytes + len(row[-1]) > min(max_bytes, WRITTEN_BYTES):
            yield some
            some, n_bytes = [], 0
        some.append(row)
        n_bytes += len(row[-1])
    if some:
        yield some


_all: "weakref.WeakSet[LayerCache]" = weakref.WeakSet()
_forking: list[LayerCache] = []


def _before_fork() -> None:
    """SQLite's locks are of a process, so a forked one must not have files open; nor
    may it begin with a lock that a thread held which it does not have."""
    for cache in list(_all):
        cache._lock.acquire()
        _forking.append(cache)
        if cache.path is not None:
            cache._close()


def _after_fork() -> None:
    while _forking:
        _forking.pop()._lock.release()


if hasattr(os, "register_at_fork"):  # where there is no fork there is no need
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork,
        after_in_child=_after_fork,
    )
