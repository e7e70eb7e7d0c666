"""Runs of words as numbers: what two texts share is found by them, not by the texts.

Words are runs of letters and digits in lower case; marks and apostrophes are left out.
A run of n words is a number of 40 bits: of two million runs against a hundred million
places of a corpus about two hundred are found by mistake.
"""

import re
from collections.abc import Iterable
from zlib import crc32

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.uint64]
RUN = 10  # words
SHORTEST = 5  # words of a sentence that is looked for whole
BITS = 40

_WORDS = re.compile(r"[^\W_]+")
_APOSTROPHES = str.maketrans("", "", "'’‘ʼ`")
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_BASE = np.uint64(0x9E3779B97F4A7C15)


class Words:
    """The words of lines as numbers: `numbers` of all of them, one after the other,
    and `starts`, where each line begins (one more than there are lines)."""

    def __init__(self, lines: Iterable[str]) -> None:
        counts, found = [0], []
        for line in lines:
            words = _WORDS.findall(line.lower().translate(_APOSTROPHES))
            found.extend([crc32(word.encode()) for word in words])
            counts.append(len(found))
        self.starts = np.array(counts, np.int64)
        self.numbers = _mixed(np.array(found, np.uint64))
        lengths = np.diff(self.starts)
        self.line_of = np.repeat(np.arange(len(lengths)), lengths)
        ends = np.repeat(self.starts[1:], lengths)
        self.left = ends - np.arange(len(found))  # words from here to the line's end

    def runs(
        self, lengths: range
    ) -> Iterable[tuple[int, npt.NDArray[np.int64], Numbers]]:
        """For each n of `lengths`: n, the places at which a run of n words within one
        line begins, and the runs' numbers."""
        total = len(self.numbers)
        value = np.zeros(total, np.uint64)
        for n in range(1, lengths.stop):
            if n > total:
                return
            with np.errstate(over="ignore"):
                value = value[: total - n + 1] * _BASE + self.numbers[n - 1 :]
            if n in lengths:
                places = np.flatnonzero(self.left[: len(value)] >= n)
                shifted = _mixed(value[places]) >> np.uint64(64 - BITS)
                yield n, places, shifted

    def whole(self) -> Numbers:
        """One number a line, of all its words."""
        with np.errstate(over="ignore"):
            place = np.arange(len(self.numbers)) - self.starts[:-1][self.line_of]
            value = self.numbers * _mixed(place.astype(np.uint64) + _BASE)
        sums = np.concatenate([[np.uint64(0)], np.cumsum(value, dtype=np.uint64)])
        return _mixed(sums[self.starts[1:]] - sums[self.starts[:-1]])


def _mixed(values: Numbers) -> Numbers:
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * _MIX_1
        values = (values ^ (values >> np.uint64(27))) * _MIX_2
        return values ^ (values >> np.uint64(31))


class Known:
    """A set of runs' numbers that is quick to ask about millions of others."""

    def __init__(self, numbers: Numbers) -> None:
        self.sorted = np.unique(numbers)
        self._shift = np.uint64(BITS - 26)
        self._table = np.zeros(1 << 26, bool)
        self._table[self.sorted >> self._shift] = True

    def has(self, numbers: Numbers) -> npt.NDArray[np.bool_]:
        """Which of the numbers are in the set."""
        result: npt.NDArray[np.bool_] = self._table[numbers >> self._shift]
        maybe = np.flatnonzero(result)
        asked = numbers[maybe]
        place = np.minimum(
            np.searchsorted(self.sorted, asked), max(len(self.sorted) - 1, 0)
        )
        result[maybe] = self.sorted[place] == asked if len(self.sorted) else False
        return result


def all_runs(lines: Iterable[str]) -> Numbers:
    """The runs of `RUN` words in lines, each once."""
    for _, _, numbers in Words(lines).runs(range(RUN, RUN + 1)):
        return np.unique(numbers)
    return np.zeros(0, np.uint64)


def short_sentences(lines: Iterable[str]) -> Numbers:
    """Lines of `SHORTEST` to `RUN` - 1 words, whole, each once."""
    words = Words(lines)
    lengths = np.diff(words.starts)
    found = [np.zeros(0, np.uint64)]
    for n, places, numbers in words.runs(range(SHORTEST, RUN)):
        line = words.line_of[places]
        found.append(numbers[(lengths[line] == n) & (places == words.starts[line])])
    return np.unique(np.concatenate(found))
