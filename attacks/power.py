"""Loss of power at every operation on files of a writer: what was not synced is lost,
all of it, or only some, as disks may choose.

The operations are recorded where processes call the system (kill_at.c), and played on
a model of a disk: a file keeps what it had when it was synced last, and so do the names
in a folder. After each operation the power fails, and what is left is read.
"""

import ctypes
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .processes import in_a_fork

if TYPE_CHECKING:
    from .report import Run
    from .writers import Writer

SUBSETS = 3  # random ones of what is not synced, after each operation


class File:
    """Its bytes now, and those that are on the disk."""

    def __init__(self, data: bytes = b"") -> None:
        self.now, self.kept = data, data


class Folder:
    """Its names now, and those that are on the disk."""

    def __init__(self) -> None:
        self.now: dict[str, File | Folder] = {}
        self.kept: dict[str, File | Folder] = {}


Change = list[tuple[Folder, str, "File | Folder | None"]]  # one rename is two


class Operation(NamedTuple):
    """A line that was recorded."""

    name: str
    path: str
    other: str
    number: int
    data: bytes


class Disk:
    """A folder on a disk that keeps what is synced."""

    def __init__(self, place: Path) -> None:
        self.place, self.waiting = place, list[Change]()
        self.root = _read(place)

    def do(self, operation: Operation) -> None:
        """Change what is there now; one that fails changes nothing."""
        name, path, other, number, data = operation
        folder, last = self._find(path)
        node = folder.now.get(last) if folder else self.root
        if name == "sync":
            self._sync(node)
        elif name in ("write", "size") and isinstance(node, File):
            size = len(node.now) if name == "write" else number
            node.now = node.now[:size].ljust(number, b"\0")
            if name == "write":
                node.now = node.now[:number] + data + node.now[number + len(data) :]
        elif folder and name == "create":
            if not isinstance(node, File):
                self._change([(folder, last, File())])
            elif number:
                node.now = b""
        elif folder and name == "mkdir" and node is None:
            self._change([(folder, last, Folder())])
        elif folder and name in ("unlink", "rmdir") and node is not None:
            self._change([(folder, last, None)])
        elif folder and name in ("rename", "link") and node is not None:
            to, new = self._find(other)
            if to and name == "link" and new not in to.now:
                self._change([(to, new, node)])
            elif to and name == "rename":
                self._change([(folder, last, None), (to, new, node)])

    def _find(self, path: str) -> tuple[Folder | None, str]:
        """Return the folder of a path, and the name in it."""
        *parents, last = Path(path).relative_to(self.place).parts or ("",)
        folder: File | Folder | None = self.root if last else None
        for parent in parents:
            folder = folder.now.get(parent) if isinstance(folder, Folder) else None
        return (folder if isinstance(folder, Folder) else None), last

    def _change(self, change: Change) -> None:
        _apply(change, lambda folder: folder.now)
        self.waiting.append(change)

    def _sync(self, node: File | Folder | None) -> None:
        if isinstance(node, File):
            node.kept = node.now
        else:
            done = [c for c in self.waiting if any(f is node for f, *_ in c)]
            self.waiting = [c for c in self.waiting if c not in done]
            for change in done:
                _apply(change, lambda folder: folder.kept)

    def write(self, place: Path, lucky: Callable[[], bool]) -> None:
        """Write what is left after the power fails: what is synced, and whatever else
        has luck."""
        chosen = [change for change in self.waiting if lucky()]
        names: dict[Folder, dict[str, File | Folder]] = {}

        def of(folder: Folder) -> dict[str, File | Folder]:
            return names.setdefault(folder, dict(folder.kept))

        for change in chosen:
            _apply(change, of)

        def put(folder: Folder, path: Path) -> None:
            path.mkdir()
            for name, node in of(folder).items():
                if isinstance(node, Folder):
                    put(node, path / name)
                else:
                    (path / name).write_bytes(node.now if lucky() else node.kept)

        shutil.rmtree(place, ignore_errors=True)
        put(self.root, place)

    def is_as(self, place: Path) -> bool:
        """Return whether a folder has what is there now: nothing escaped."""
        return _content(self.root) == _content(_read(place))


def _apply(change: Change, of: Callable[[Folder], dict[str, File | Folder]]) -> None:
    for folder, name, node in change:
        if node is None:
            of(folder).pop(name, None)
        else:
            of(folder)[name] = node


def _read(place: Path) -> Folder:
    folder = Folder()
    for path in place.iterdir():
        folder.now[path.name] = (
            _read(path) if path.is_dir() else File(path.read_bytes())
        )
    folder.kept = dict(folder.now)
    return folder


def _content(node: File | Folder) -> object:
    if isinstance(node, File):
        return node.now
    return {name: _content(each) for name, each in node.now.items()}


def _recorded(path: Path) -> Iterator[Operation]:
    with path.open("rb") as file:
        while line := file.readline():
            name, where, other, number, size = line.decode().rstrip("\n").split("\t")
            yield Operation(name, where, other, int(number), file.read(int(size)))


def attack(
    run: "Run", library: ctypes.CDLL, name: str, writer: "Writer", folder: Path
) -> None:
    """Let the power fail after each operation of a writer. When it is done, what it
    wrote must be there."""
    folder.mkdir()
    place, log, rng = folder / "place", folder / "log", run.random("power", name)
    allowed = []
    for write in (writer.new, writer.old):
        shutil.rmtree(place, ignore_errors=True)
        write(place)
        allowed.insert(0, writer.read(place))
    disk = Disk(place)

    def work() -> None:
        library.record(str(place).encode(), str(log).encode())
        writer.new(place)

    if in_a_fork(work):
        run.finding(f"{name}: did not end")
    operations = list(_recorded(log))
    for number in range(len(operations) + 1):
        done = number == len(operations)
        for lucky in _lots(rng):
            disk.write(folder / "left", lucky)
            run.counts[f"losses of power, {name}"] += 1
            try:
                found = writer.read(folder / "left")
            except Exception as error:  # noqa: BLE001 (all that may come is judged)
                found = f"{type(error).__name__}: {error}"
            if found not in allowed[done:]:
                run.finding(f"{name}: after {operations[:number][-1:]}: {found}")
        if not done:
            disk.do(operations[number])
    if not disk.is_as(place):
        run.finding(f"{name}: the record of its operations is not whole")
    run.counts[f"operations recorded, {name}"] += len(operations)


def _lots(rng: random.Random) -> Iterator[Callable[[], bool]]:
    yield lambda: False
    yield lambda: True
    for _ in range(SUBSETS):
        share = rng.random()
        yield lambda share=share: rng.random() < share
