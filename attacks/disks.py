"""Disks that are full, read-only, or lose their permissions in the middle: every writer
says so with a code, what was there before is read, and it goes on when there is room.

The disk is a small tmpfs in a mount namespace of its own, where the system permits
that; where not, files that may not grow (RLIMIT_FSIZE) stand for a full one.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .files import CODED
from .processes import error_in_a_fork, start_again
from .report import Run
from .writers import VECTORS, WRITERS, Writer

MOUNTED = "ATTACKS_MOUNTED"  # set in the process that may mount
DISK = 16 << 20  # bytes
LEVELS = 24  # of free room, about, for each writer
MOMENTS = 40  # at which permissions are lost, at most, for each writer
TO_WRITE = os.O_WRONLY | os.O_RDWR
CHANGES = ("os.rename", "os.remove", "os.link", "os.mkdir", "os.rmdir")
OVERRIDES = 0b110  # capabilities by which root needs no permission (DAC_*)


def attack(run: Run) -> None:
    """Give each writer all kinds of bad disks."""
    if os.environ.get(MOUNTED) is None and _may_mount():
        start_again(run, ("unshare", "-m"), **{MOUNTED: "1"})
        return
    mounts = MOUNTED in os.environ
    run.notes["full disks are"] = "a tmpfs" if mounts else "RLIMIT_FSIZE"
    with tempfile.TemporaryDirectory() as folder:
        disk = Path(folder) / "disk"
        disk.mkdir()
        if mounts:
            _mount("-t", "tmpfs", "-o", f"size={DISK}", "none", str(disk))
        try:
            for name, make in {**WRITERS, "vectors": lambda: VECTORS}.items():
                if name != "pipeline":  # what spaCy writes beside it has no codes
                    _attack_writer(run, name, make(), disk)
        finally:
            if mounts:
                subprocess.run(["umount", "--lazy", str(disk)], check=True)


def _attack_writer(run: Run, name: str, writer: Writer, disk: Path) -> None:
    trial = Trial(run, name, writer, disk)
    if MOUNTED in os.environ:
        trial.full()
        trial.read_only()
    else:
        trial.limited()
    trial.permission_lost()
    trial.clear()


def _may_mount() -> bool:
    test = ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"]
    try:
        return subprocess.run(test, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


class Trial:
    """One writer on one disk."""

    def __init__(self, run: Run, name: str, writer: Writer, disk: Path) -> None:
        self.run, self.name, self.writer, self.disk = run, name, writer, disk
        self.place, self.allowed = disk / "place", list[str]()
        for write in (writer.old, writer.new):
            write(self.place)
            self.allowed.append(writer.read(self.place))

    def clear(self) -> None:
        """Begin with what is there before."""
        shutil.rmtree(self.place, ignore_errors=True)

    def check(self, what: str, error: str | None, *, fails: bool = False) -> None:
        """Judge a write: what it raised, what is there, and that it goes on."""
        self.run.counts[f"{what}, {self.name}"] += 1
        if error is not None and not CODED.search(error):
            self.run.finding(f"{self.name}, {what}: {error}")
        if error is None and fails and self.name != "layer cache":
            self.run.finding(f"{self.name}, {what}: no error")
        right = self.allowed if error is None else self.allowed[:1]
        for step in ("left", "goes on"):
            try:
                if step == "goes on":
                    self.writer.new(self.place)
                    right = self.allowed[1:]
                found = self.writer.read(self.place)
            except Exception as raised:  # noqa: BLE001 (all that may come is judged)
                found = f"{type(raised).__name__}: {raised}"
            if found not in right:
                self.run.finding(f"{self.name}, {what}, {step}: {error}; {found}")

    def full(self) -> None:
        """Write with more and more room, until there is enough."""
        self.clear()
        self.writer.old(self.place)
        before = _room(self.disk)
        self.writer.new(self.place)
        page = os.statvfs(self.disk).f_frsize
        size = sum(p.stat().st_size for p in self.place.rglob("*") if p.is_file())
        step = max(page, size // LEVELS // page * page)
        room, error = 0, "[EL0]"
        while error is not None and room < before and self.run.seconds_left:
            self.clear()
            self.writer.old(self.place)
            ballast = self.disk / "ballast"
            ballast.write_bytes(bytes(max(0, _room(self.disk) - room)))
            error = error_in_a_fork(lambda: self.writer.new(self.place))
            ballast.unlink()
            self.check("full disks", error, fails=room == 0)
            room += step
            if self.name == "layer cache" and room < size + 2 * step:
                error = "[EL0]"  # it is no error there
        if room >= before:
            self.run.finding(f"{self.name}: never has room")

    def limited(self) -> None:
        """Write where files may not grow."""
        for most in (0, 50, 500, 2000, 10_000):
            self.clear()
            self.writer.old(self.place)

            def work(most: int = most) -> None:
                import resource  # here, since Windows has none

                hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
                self.writer.new(self.place)

            self.check("limits", error_in_a_fork(work), fails=most == 0)

    def read_only(self) -> None:
        """Write on a disk that is mounted to be read."""
        self.clear()
        self.writer.old(self.place)
        _mount("-o", "remount,ro", str(self.disk))
        try:
            error = error_in_a_fork(lambda: self.writer.new(self.place))
        finally:
            _mount("-o", "remount,rw", str(self.disk))
        self.check("read-only disks", error, fails=True)

    def permission_lost(self) -> None:
        """Take the permission to write away before each operation on files."""
        log = self.disk / "operations"

        def work(at: int) -> None:
            _need_permissions()
            _at_each_operation(self.place, at, log)
            self.writer.new(self.place)

        moment, step, total = 0, 1, None
        while (total is None or moment < total) and self.run.seconds_left:
            self.clear()
            self.writer.old(self.place)
            error = error_in_a_fork(lambda at=moment - 1: work(at))
            _permit(self.place, 0o700)
            self.check("permissions lost", error)
            if total is None:  # the first loses none, and counts
                total = log.stat().st_size
                step = max(1, total // MOMENTS)
            moment += step


def _room(disk: Path) -> int:
    found = os.statvfs(disk)
    return found.f_bavail * found.f_frsize


def _permit(place: Path, mode: int) -> None:
    for folder in [place, *(path for path in place.rglob("*") if path.is_dir())]:
        folder.chmod(mode)


def _at_each_operation(place: Path, at: int, log: Path) -> None:
    """Count operations on files of a folder as bytes in a log, and take the permission
    to write there away before one."""
    counted = os.open(log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    count = iter(range(1 << 30))

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and not int(str(arguments[2] or 0)) & TO_WRITE:
            return
        if event not in ("open", *CHANGES) or str(place) not in repr(arguments):
            return
        os.write(counted, b".")
        if next(count) == at:
            _permit(place, 0o500)

    sys.addaudithook(watch)


def _need_permissions() -> None:
    """Let root be refused what others are refused."""
    libc = ctypes.CDLL(None)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    libc.capget(header, data)
    data[0] &= ~OVERRIDES
    libc.capset(header, data)
