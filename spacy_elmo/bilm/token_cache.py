"""Token vectors of words seen before: the char-CNN runs once for each.

Running text repeats itself: of the distinct words of a batch, most were in the ones
before. The cache is bounded, forgets what was not used for longest, and is emptied when
the weights are no longer the ones its vectors were computed with.

Shapes: V words of a batch, H token vector, K rows of the cache.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from .kernels.memo import pinned, state_of

Compute = Callable[[Sequence[str]], Tensor]


class TokenCache:
    """Keeps the token vectors of words.

    Args:
        size: Words kept at most, 0 for none.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._rows: OrderedDict[str, int] = OrderedDict()  # longest unused first
        self._vectors_KH = torch.empty(0, 0)
        self._made_with: tuple[object, ...] = ()
        self._weights: list[Tensor] = []
        self._cleared = 0  # times
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def is_used(self) -> bool:
        """Whether it keeps any words."""
        return self.size > 0

    def clear(self) -> None:
        """Forget all words."""
        with self._lock:
            self._cleared += 1  # what is being computed now is not to be kept
            self._rows.clear()
            self._vectors_KH = torch.empty(0, 0)

    def _begin(self, weights: list[nn.Parameter]) -> None:
        """Forget all words, and begin with other weights."""
        self._rows.clear()
        self._vectors_KH = torch.empty(0, 0)
        self._made_with, self._weights = state_of(weights), pinned(weights)

    def __reduce__(self) -> tuple[type["TokenCache"], tuple[int]]:
        """A copy, in this process or another, begins empty."""
        return TokenCache, (self.size,)

    def vectors(
        self, words: Sequence[str], encoder: nn.Module, compute: Compute
    ) -> Tensor:
        """Return the vectors of distinct words, (V, H).

        Args:
            words: The words.
            encoder: What `compute` depends on the weights of.
            compute: Returns the vectors of words that are not in the cache.
        """
        weights = list(encoder.parameters())
        state = state_of(weights)
        with self._lock:
            if state != self._made_with:
                self._begin(weights)
            cleared = self._cleared
            known = [self._rows.get(word, -1) for word in words]
            for word, row in zip(words, known):
                if row >= 0:
                    self._rows.move_to_end(word)
            missing = [i for i, row in enumerate(known) if row < 0]
            if not missing:
                return self._vectors_KH[torch.tensor(known)]
            hits = [i for i, row in enumerate(known) if row >= 0]
            rows = torch.tensor([known[i] for i in hits], dtype=torch.int64)
            found = self._vectors_KH[rows] if hits else None
        # Not under the lock: another thread may compute at the same time.
        new_MH = compute([words[i] for i in missing])
        vectors_VH = new_MH.new_empty(len(words), new_MH.shape[1])
        vectors_VH[torch.tensor(missing)] = new_MH
        if found is not None:
            vectors_VH[torch.tensor(hits)] = found
        self._keep([words[i] for i in missing], new_MH, (state, cleared))
        return vectors_VH

    def _keep(
        self, words: Sequence[str], new_MH: Tensor, when: tuple[object, int]
    ) -> None:
        """Keep the vectors of words; the last ones if there are more than slots."""
        if self.size == 0:
            return
        words, new_MH = words[-self.size :], new_MH[-self.size :]
        with self._lock:
            if when != (self._made_with, self._cleared):
                return  # the weights were changed meanwhile
            self._grow(len(self._rows) + len(words), new_MH)
            rows = []
            for word in words:
                row = self._rows.pop(word, None)  # another thread was first
                if row is None:
                    row = len(self._rows)
                    if len(self._rows) == self.size:
                        _, row = self._rows.popitem(last=False)
                self._rows[word] = row
                rows.append(row)
            self._vectors_KH[torch.tensor(rows)] = new_MH

    def _grow(self, n: int, like_MH: Tensor) -> None:
        """Make room for n rows; it is doubled each time, so that a small text takes
        little."""
        have = len(self._vectors_KH)
        if n <= have or have == self.size:
            return
        size = min(self.size, max(n, 2 * have, 1024))
        larger = like_MH.new_empty(size, like_MH.shape[1])
        if have:
            larger[:have] = self._vectors_KH
        self._vectors_KH = larger
