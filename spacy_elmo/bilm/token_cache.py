"""Token vectors of words seen before: the token encoder runs once for each.

Running text repeats itself: of the distinct words of a batch, most were in the batches
before. The cache is bounded. The words whose last use is longest ago are dropped first,
and all of them when the weights change.

Shapes: V words of a batch, M of them missing in the cache, K rows of the cache, H token
vector.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..machine import ProcessLock, default_settings, join_rows, put_rows, take_rows
from .kernels import Prepared

# Words whose token vectors are kept by default: 25 MB at the small published size.
CACHE_WORDS = 50_000
# Characters of a word that is kept at most: a text from strangers may be one word.
MAX_LENGTH = 200


class TokenCache:
    """A cache of the token vectors of `size` words at most. Threads can share it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._rows = Prepared[_Rows]()
        # A fork begins with the words of its parent, unless a thread was writing them.
        self._lock = ProcessLock(reset=self._rows.clear)

    @property
    def words(self) -> list[str]:
        """The words whose vectors are kept, the one unused for longest first."""
        return [] if self._rows.kept is None else list(self._rows.kept.numbers)

    def __len__(self) -> int:
        return len(self.words)

    def clear(self) -> None:
        """Remove all words."""
        with self._lock:  # vectors that are computed now go into rows that are dropped
            self._rows.clear()

    def __reduce__(self) -> Any:
        """A copy, in this process or another, begins empty."""
        return TokenCache, (self.size,)

    def vectors(
        self,
        words: Sequence[str],
        encoder: nn.Module,
        compute: Callable[[Sequence[str]], Tensor],
    ) -> Tensor:
        """Return the vectors of distinct words, (V, H).

        Args:
            words: The words.
            encoder: The module whose weights the vectors depend on.
            compute: Computes the vectors of words that are missing.
        """
        with self._lock:
            rows = self._rows([encoder], _Rows)
            known = [word for word in words if word in rows.numbers]
            known_KH = rows.take(known) if known else None
        if known_KH is not None and len(known) == len(words):
            return known_KH
        row = {word: i for i, word in enumerate(known)}
        missing = [word for word in words if word not in row]
        # What is kept must not depend on the settings that this call is made under.
        with default_settings():
            # Not under the lock: another thread may compute at the same time.
            new_MH, size = compute(missing), self.size
            short = [i for i, word in enumerate(missing) if len(word) <= MAX_LENGTH]
            if kept := short[-size:] if size else []:
                kept_words = [missing[i] for i in kept]
                with self._lock:
                    rows.keep(kept_words, take_rows(new_MH, kept), size)
        if known_KH is None:
            return new_MH
        row |= {word: i for i, word in enumerate(missing, start=len(known))}
        both_VH = join_rows([known_KH, new_MH])
        return take_rows(both_VH, [row[word] for word in words])


class _Rows:
    """Vectors of words, all computed with the same weights."""

    def __init__(self) -> None:
        self.numbers: OrderedDict[str, int] = OrderedDict()  # longest unused first
        self.vectors_KH = torch.empty(0, 0, dtype=torch.float32, device="cpu")

    def take(self, words: Sequence[str]) -> Tensor:
        """Return the vectors of words, which are now in use again."""
        for word in words:
            self.numbers.move_to_end(word)
        numbers = [self.numbers[word] for word in words]
        return take_rows(self.vectors_KH, numbers)

    def keep(self, words: Sequence[str], new_MH: Tensor, size: int) -> None:
        """Keep new words, in place of those whose last use is longest ago."""
        have = len(self.vectors_KH)
        needed = min(size, len(self.numbers) + len(words))
        if needed > have:  # the size may be new
            larger = new_MH.new_empty(min(size, max(needed, 2 * have)), new_MH.shape[1])
            if have:
                put_rows(larger, range(have), self.vectors_KH)
            self.vectors_KH = larger
        chosen = []
        for word in words:
            number = self.numbers.pop(word, None)  # another thread was first
            if number is None:
                number = len(self.numbers)
                if number >= size:
                    _, number = self.numbers.popitem(last=False)
            self.numbers[word] = number
            chosen.append(number)
        put_rows(self.vectors_KH, chosen, new_MH)
