"""Print the files and lines of each room of the package, and of the folders around."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

SUFFIXES = {".py", ".c", ".h", ".js", ".css", ".html", ".md"}

files, lines = Counter(), Counter()
command = ["git", "ls-files", "-z"]
listed = subprocess.check_output(command, text=True)  # noqa: S603 (a fixed command)
for path in map(Path, filter(None, listed.split("\0"))):
    if path.suffix in SUFFIXES and path.is_file():
        top = path.parts[0] if len(path.parts) > 1 else "."
        n_lines = path.read_bytes().count(b"\n")
        for place in {top, path.parent.as_posix() if top == "spacy_elmo" else top}:
            files[place] += 1
            lines[place] += n_lines
for place in sorted(files):
    sys.stdout.write(f"{place:36} {files[place]:5,} files {lines[place]:8,} lines\n")
