"""Revisions of the package that are run side by side, in processes of their own."""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROBE = Path(__file__).with_name("against_probe.py")


class Tree:
    """A revision of the package that other processes can import.

    Args:
        source: A checkout.
        folder: An empty folder, for what makes it importable and for what it writes.
    """

    def __init__(self, source: Path, folder: Path) -> None:
        self.source, self.folder = source, folder
        site = folder / "site"
        info = site / "spacy_elmo-0.dist-info"
        info.mkdir(parents=True)
        # The tests' package of extensions is for this tree: an empty one hides it.
        other = site / "elmo_extension-0.dist-info"
        other.mkdir()
        (other / "METADATA").write_text("Name: elmo-extension\nVersion: 0\n")
        (site / "spacy_elmo").symlink_to(source / "spacy_elmo")
        # Its own entry points, and not those that are installed.
        (info / "METADATA").write_text("Name: spacy-elmo\nVersion: 0\n")
        project = tomllib.loads((source / "pyproject.toml").read_text("utf-8"))
        lines = []
        for group, entries in project["project"]["entry-points"].items():
            lines += [f"[{group}]", *(f"{k} = {v}" for k, v in entries.items())]
        (info / "entry_points.txt").write_text("\n".join(lines))
        self.probe = shutil.copy(PROBE, folder)
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(site),
            "OMP_NUM_THREADS": "1",
        }

    def run(self, *arguments: object) -> str:
        """Run Python with arguments. Returns its output."""
        command = [sys.executable, *map(str, arguments)]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{command}: {done.stdout}{done.stderr}")
        return done.stdout

    @contextmanager
    def reader(self, *arguments: object) -> Iterator[subprocess.Popen[str]]:
        """Start the probe's "read", which measures a round for each line it gets."""
        with self.process(self.probe, "read", *arguments) as process:
            yield process

    @contextmanager
    def process(self, *arguments: object) -> Iterator[subprocess.Popen[str]]:
        """Start Python with arguments, in a process that is written to and read."""
        command = [sys.executable, *map(str, arguments)]
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.communicate()


def check_out(revision: str, folder: Path) -> Path:
    """Put the package of a revision into a folder, and its models of tests/gold."""
    folder.mkdir()
    archive = folder / "archive.zip"
    command = ["git", "archive", "--output", archive, revision]
    names = "spacy_elmo", "pyproject.toml", "tests/gold"
    subprocess.run([*command, *names], cwd=ROOT, check=True)
    shutil.unpack_archive(archive, folder)
    return folder
