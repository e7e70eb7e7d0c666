"""Cut a part out of a text, by the numbers of its lines."""

from itertools import islice
from pathlib import Path

from spacy_elmo.files import write_file


def copy_lines(text: Path, output: Path, skip: int, limit: int | None) -> int:
    """Write the lines of a text after the first `skip`, at most `limit` of them or all,
    and return how many they are. Raises OSError, and ValueError if there are none."""
    n_lines = 0

    def write(path: Path) -> None:
        nonlocal n_lines
        end = None if limit is None else skip + limit
        with text.open("rb") as lines, path.open("wb") as part:
            for line in islice(lines, skip, end):
                part.write(line)
                n_lines += 1
        if not n_lines:
            raise ValueError(f"{text} has no lines after the first {skip:,}")

    write_file(output, write)
    return n_lines
