"""The words of texts, the most frequent first.

    python -m experiments.words.count OUTPUT SOURCE ... --limit 1200000

A source is a text (.txt, .txt.xz), or a git directory, of which every text file of the
newest commit is read. OUTPUT has a word a line, as the teacher reads it: without case
and accents.
"""

import lzma
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import typer

from spacy_elmo.files import write_file
from spacy_elmo.words.pieces import normalise

# Letters and digits, with single marks between them: "U.S", "O'Neil", "AT&T".
WORD = re.compile(r"[^\W_]+(?:['’.&+-][^\W_]+)*")
MAX_CHARACTERS = 30
ENDINGS = (".md", ".txt", ".jsonl", ".json", ".xml", ".html", ".csv", ".tsv")


def read(source: Path) -> Iterator[str]:
    """Yield a source's text in parts."""
    if source.is_dir():
        yield from _read_repository(source)
    elif source.suffix == ".xz":
        with lzma.open(source, "rt", encoding="utf-8") as file:
            yield from file
    else:
        with source.open(encoding="utf-8") as file:
            yield from file


def _read_repository(folder: Path) -> Iterator[str]:
    git = ["git", f"--git-dir={folder}", "-c", "core.quotepath=off"]
    listing = [*git, "ls-tree", "-r", "-z", "HEAD"]
    tree = subprocess.run(listing, capture_output=True, check=True)
    rows = tree.stdout.decode(errors="replace").split("\0")
    ids = [row.split()[2] for row in rows if row.lower().endswith(ENDINGS)]
    batch = subprocess.Popen(
        [*git, "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert batch.stdin and batch.stdout
    for name in ids:
        batch.stdin.write(f"{name}\n".encode())
        batch.stdin.flush()
        head = batch.stdout.readline().split()
        if len(head) == 3:
            yield batch.stdout.read(int(head[2]) + 1).decode(errors="replace")
    batch.stdin.close()
    batch.wait()


def count(sources: list[Path]) -> Counter[str]:
    """Return how often each form stands in the sources. Of a word with hyphens the
    parts count, of one with other marks the whole and its parts."""
    counts: Counter[str] = Counter()
    for source in sources:
        for part in read(source):
            counts.update(WORD.findall(part))
    forms: Counter[str] = Counter()
    for form, n in counts.items():
        # A name counts as if it were more frequent, since it is names that matter.
        weight = n if form.islower() else 4 * n
        whole = form.replace("-", "").isalnum()
        for part in form.split("-") if whole else [form, *re.findall(r"[^\W_]+", form)]:
            if len(part) <= MAX_CHARACTERS and not any(map(str.isdigit, part[1:-1])):
                forms[normalise(part)] += weight
    return forms


def main(
    output: Path = typer.Argument(..., help="File for the words"),
    sources: list[Path] = typer.Argument(..., help="Texts and git directories"),
    limit: int = typer.Option(1_200_000, help="At most so many words"),
) -> None:
    """Write the most frequent words."""
    words = [word for word, _ in count(sources).most_common() if word][:limit]
    write_file(output, "\n".join(words) + "\n")
    print(f"{len(words):,} words")


if __name__ == "__main__":
    typer.run(main)
