"""Held-out texts of a language: excerpts of all its sources."""

import hashlib
import lzma
from pathlib import Path

from . import judge
from .parts import part_path
from .source import Source

WORDS = 60_000  # of each text
_EXCERPT = 4_000  # words of one document at most


def write(
    language: str, sources: tuple[Source, ...], output: Path, words: int = WORDS
) -> dict[str, int]:
    """Write `heldout/LANGUAGE_lm_{valid,test}.txt.xz` from the parts of a corpus.

    Each source gives as large a share of the two texts as of the corpus. Its documents
    are drawn by lot, for one text and the other by turns. A document of which an
    excerpt is held out is no part of the corpus.

    Args:
        language: The name of the corpus.
        sources: The table of the language.
        output: The folder of the corpus, with its parts.
        words: Of each text, about.

    Returns:
        The words of the two texts.
    """
    parts = {source: _documents(part_path(source, output)) for source in sources}
    counts = {source: _words(parts[source], source.max_words) for source in sources}
    texts: dict[str, list[str]] = {"valid": [], "test": []}
    for source, documents in parts.items():
        share = words * counts[source] // sum(counts.values())
        left = dict.fromkeys(texts, share)
        for name in sorted(documents, key=lambda name: _lot(source.name, name)):
            text = max(left, key=lambda text: left[text])
            if left[text] <= 0:
                break
            lines = _excerpt(documents[name], min(_EXCERPT, left[text]))
            left[text] -= sum(map(_length, lines))
            texts[text].append("\n".join(lines) + "\n")
    for text, excerpts in texts.items():
        path = judge.HELD_OUT / f"{language}_lm_{text}.txt.xz"
        path.write_bytes(lzma.compress("\n".join(excerpts).encode(), preset=9))
    return {text: len(" ".join(found).split()) for text, found in texts.items()}


def _documents(part: Path) -> dict[str, list[str]]:
    """The paragraphs of each document of a part, by the document's name."""
    found = {}
    for document in part.read_text("utf-8").removesuffix("\n").split("\n\n"):
        name, *lines = document.split("\n")
        found[name] = lines
    return found


def _words(documents: dict[str, list[str]], most: int | None) -> int:
    words = sum(_length(line) for lines in documents.values() for line in lines)
    return words if most is None else min(words, most)


def _length(line: str) -> int:
    return line.count(" ") + 1


def _excerpt(lines: list[str], words: int) -> list[str]:
    """The first lines of the second half of a document, up to so many words."""
    found: list[str] = []
    for line in lines[len(lines) // 2 :]:
        found.append(line)
        words -= _length(line)
        if words <= 0:
            break
    return found


def _lot(source: str, name: str) -> bytes:
    return hashlib.blake2b(f"held out\t{source}\t{name}".encode()).digest()
