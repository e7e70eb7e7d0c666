"""Token vectors of words seen before: the token encoder runs once for each.

Running text repeats itself: of the distinct words of a batch, most were in the batches
before. The cache is bounded, drops the words that were not used for longest, and is
emptied when the weights are no longer those that its vectors were computed with.

Shapes: V words of a batch, M of them missing in the cache, K rows of the cache, H token
vector.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .kernels.memo import Derived

# Words whose token vectors are kept by default: 25 MB at the small published size.
CACHE_WORDS = 50_000


class TokenCache:
    """A cache of token vectors, which threads can share.

    Args:
        size: Words kept at most, 0 for none.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._rows = Derived(_Rows)
        self._lock = threading.Lock()

    @property
    def words(self) -> list[str]:
        """The words whose vectors are kept, the one unused for longest first."""
        rows = self._rows.kept
        return [] if rows is None else list(rows.numbers)

    def __len__(self) -> int:
        return len(self.words)

    def clear(self) -> None:
        """Remove all words."""
        with self._lock:  # what is being computed now is kept in rows that are gone
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
            compute: Returns the vectors of words that are missing.
        """
        with self._lock:
            rows = self._rows(*encoder.parameters())
            numbers = rows.find(words)
            missing = [i for i, number in enumerate(numbers) if number < 0]
            if not missing:
                return rows.vectors_KH[torch.tensor(numbers)]
            hits = [i for i, number in enumerate(numbers) if number >= 0]
            known = torch.tensor([numbers[i] for i in hits], dtype=torch.int64)
            found = rows.vectors_KH[known] if hits else None
        # Not under the lock: another thread may compute at the same time.
        new_MH = compute([words[i] for i in missing])
        vectors_VH = new_MH.new_empty(len(words), new_MH.shape[1])
        vectors_VH[torch.tensor(missing)] = new_MH
        if found is not None:
            vectors_VH[torch.tensor(hits)] = found
        if self.size:
            with self._lock:
                rows.keep([words[i] for i in missing], new_MH, self.size)
        return vectors_VH


class _Rows:
    """The vectors of words that were computed with the same weights."""

    def __init__(self, *weights: Tensor) -> None:
        self.numbers: OrderedDict[str, int] = OrderedDict()  # longest unused first
        self.vectors_KH = torch.empty(0, 0)

    def find(self, words: Sequence[str]) -> list[int]:
        """Return the row of each word, now in use again; -1 where there is none."""
        numbers = [self.numbers.get(word, -1) for word in words]
        for word, number in zip(words, numbers):
            if number >= 0:
                self.numbers.move_to_end(word)
        return numbers

    def keep(self, words: Sequence[str], new_MH: Tensor, size: int) -> None:
        """Keep new words, the last ones if there are more than fit."""
        words, new_MH = words[-size:], new_MH[-size:]
        self._grow(len(self.numbers) + len(words), size, new_MH)
        chosen = []
        for word in words:
            number = self.numbers.pop(word, None)  # another thread was first
            if number is None:
                number = len(self.numbers)
                if number == size:
                    _, number = self.numbers.popitem(last=False)
            self.numbers[word] = number
            chosen.append(number)
        self.vectors_KH[torch.tensor(chosen)] = new_MH

    def _grow(self, n: int, size: int, like_MH: Tensor) -> None:
        """Make room for n rows, doubled each time: a small text takes little."""
        have = len(self.vectors_KH)
        if n <= have or have == size:
            return
        larger = like_MH.new_empty(min(size, max(n, 2 * have, 1024)), like_MH.shape[1])
        if have:
            larger[:have] = self.vectors_KH
        self.vectors_KH = larger
