"""What is said of every paragraph of a part before the parts are joined: how long it
is, what it shares with evaluation and held-out texts, samples of its runs of words."""

import hashlib
import lzma
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from . import seen
from .runs import RUN, SHORTEST, Known, Numbers, Words, all_runs

HELD_OUT = Path(__file__).parent / "heldout"
AT_ONCE = 500_000  # words
SAMPLE = 8  # one of so many runs is kept to find near-duplicates by
EVALUATION_RUN, EVALUATION_SENTENCE, HELD_OUT_RUN = 1, 2, 4  # bits of `flags`
_WHOLE = 20  # words: so long a paragraph that is held out whole gives a document away
_Ints = npt.NDArray[np.int64]


class Avoided(NamedTuple):
    """What must not be in the corpus."""

    runs: Known
    sentences: Known
    held_out: Known


@cache
def avoided(language: str) -> Avoided:
    """Return the evaluation and held-out text of a language, as numbers."""
    runs, sentences = seen.read(language)
    held = [all_runs(held_out_lines(language, part)) for part in ("valid", "test")]
    return Avoided(Known(runs), Known(sentences), Known(np.concatenate(held)))


def held_out_lines(language: str, part: str) -> list[str]:
    """Paragraphs of the text that perplexities are measured on."""
    with lzma.open(
        HELD_OUT / f"{language}_lm_{part}.txt.xz", "rt", encoding="utf-8"
    ) as f:
        return [line.rstrip("\n") for line in f if line.strip()]


class Judgement(NamedTuple):
    """Of each line (paragraph): document, place and bytes in the part, words, flags,
    number of the whole line; of each document its held-out runs and whole held-out
    paragraphs; samples of runs with their lines."""

    document: _Ints
    place: _Ints
    size: _Ints
    words: _Ints
    flags: npt.NDArray[np.uint8]
    whole: Numbers
    held_runs: _Ints
    held_whole: _Ints
    samples: Numbers
    sample_line: _Ints


def judge_part(part: Path, avoid: Avoided) -> Judgement:
    """Judge a part, or read what was found before of the same text."""
    kept, made_of = part.with_suffix(".npz"), _made_of(part, avoid)
    if kept.exists():
        with np.load(kept) as found:
            if "made_of" in found and str(found["made_of"]) == made_of:
                return Judgement(**{name: found[name] for name in Judgement._fields})
    aside = part.with_suffix(f".{os.getpid()}.tmp.npz")
    judgement = _stacked([_judge(lines, avoid) for lines in _chunks(part)])
    np.savez(aside, made_of=np.array(made_of), **judgement._asdict())
    os.replace(aside, kept)
    return judgement


def _made_of(part: Path, avoid: Avoided) -> str:
    """Return a hash of all that a judgement depends on."""
    with part.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    for known in avoid:
        digest.update(known.sorted.tobytes())
    return digest.hexdigest()


class _Lines(NamedTuple):
    texts: list[str]
    document: list[int]
    place: list[int]
    size: list[int]


def _chunks(part: Path) -> Iterator[_Lines]:
    """The lines of whole documents, some hundred thousand words at once."""
    chunk = _Lines([], [], [], [])
    place, number, characters, first = 0, 0, 0, True
    with (
        part.open("rb") as file,
        tqdm(
            total=part.stat().st_size,
            desc=f"{part.stem}: filters",
            unit="B",
            unit_scale=True,
            mininterval=2,
        ) as progress,
    ):
        for raw in file:
            progress.update(len(raw))
            if raw == b"\n":
                number, first = number + 1, True
                if characters > 6 * AT_ONCE:
                    yield chunk
                    chunk, characters = _Lines([], [], [], []), 0
            elif first:
                first = False  # the name
            else:
                chunk.texts.append(raw.decode("utf-8")[:-1])
                chunk.document.append(number)
                chunk.place.append(place)
                chunk.size.append(len(raw))
                characters += len(raw)
            place += len(raw)
    if chunk.texts:
        yield chunk


def _judge(lines: _Lines, avoid: Avoided) -> Judgement:
    words = Words(lines.texts)
    document = np.array(lines.document, np.int64)
    first = int(document[0])
    flags = np.zeros(len(document), np.uint8)
    held_runs = np.zeros(int(document[-1]) - first + 1, np.int64)
    held_whole = np.zeros_like(held_runs)
    samples, sample_line = np.zeros(0, np.uint64), np.zeros(0, np.int64)
    for n, places, numbers in words.runs(range(SHORTEST, RUN + 1)):
        line = words.line_of[places]
        if n < RUN:
            flags[line[avoid.sentences.has(numbers)]] |= EVALUATION_SENTENCE
            continue
        flags[line[avoid.runs.has(numbers)]] |= EVALUATION_RUN
        held = avoid.held_out.has(numbers)
        flags[line[held]] |= HELD_OUT_RUN
        np.add.at(held_runs, document[line[held]] - first, 1)
        shared = np.bincount(line[held], minlength=len(document))
        lengths = np.diff(words.starts)
        whole = (lengths >= _WHOLE) & (shared == lengths - RUN + 1)
        np.add.at(held_whole, document[whole] - first, 1)
        sampled = numbers % np.uint64(SAMPLE) == 0
        samples, sample_line = numbers[sampled], line[sampled]
    return Judgement(
        document,
        np.array(lines.place, np.int64),
        np.array(lines.size, np.int64),
        np.array([text.count(" ") + 1 for text in lines.texts], np.int64),
        flags,
        words.whole(),
        held_runs,
        held_whole,
        samples,
        sample_line,
    )


def _stacked(pieces: list[Judgement]) -> Judgement:
    lines = 0
    for number, piece in enumerate(pieces):
        pieces[number] = piece._replace(sample_line=piece.sample_line + lines)
        lines += len(piece.document)
    return Judgement(*(np.concatenate(arrays) for arrays in zip(*pieces)))
