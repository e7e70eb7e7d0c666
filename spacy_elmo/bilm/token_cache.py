"""Token vectors of words seen before: the char-CNN runs once for each.

Running text repeats itself: of the distinct words of a batch, most were in the ones
before. The cache is bounded, forgets what was not used for longest, and is emptied when
the weights are no longer the ones its vectors were computed with.

Beside the words that come and go there may be some that stay as long as the weights do,
whose vectors were computed before (vocab_cache.py).

Shapes: V words of a batch, H token vector, K rows of the cache, F that stay.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from .kernels.memo import pinned, state_of

Compute = Callable[[Sequence[str]], Tensor]


class TokenCache:
    """size: words kept at most, 0 for none, beside those that stay."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._fixed: dict[str, int] = {}  # the first rows
        self.hash_of_fixed = ""
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
        return bool(self.size or self._fixed)

    def clear(self) -> None:
        """Forget all words but those that stay."""
        with self._lock:
            self._cleared += 1  # what is being computed now is not to be kept
            self._rows.clear()
            self._vectors_KH = self._vectors_KH[: len(self._fixed)].clone()

    def fix(self, words: Sequence[str], vectors_FH: Tensor, encoder: nn.Module) -> None:
        """Keep vectors as long as the encoder's weights are what they are."""
        with self._lock:
            self._begin(list(encoder.parameters()))
            self._fixed = {word: row for row, word in enumerate(words)}
            joined = "\0".join(words).encode("utf-8", "surrogatepass")
            self.hash_of_fixed = hashlib.sha256(joined).hexdigest() if words else ""
            self._vectors_KH = vectors_FH

    def fixed(self, encoder: nn.Module) -> tuple[list[str], Tensor] | None:
        """What `fix` was given, if it is for the encoder's weights as they are."""
        with self._lock:
            if not self._fixed or state_of(encoder.parameters()) != self._made_with:
                return None
            return list(self._fixed), self._vectors_KH[: len(self._fixed)]

    def _begin(self, weights: list[nn.Parameter]) -> None:
        """Empty, for other weights."""
        self._rows.clear()
        self._fixed, self.hash_of_fixed = {}, ""
        self._vectors_KH = torch.empty(0, 0)
        self._made_with, self._weights = state_of(weights), pinned(weights)

    def __reduce__(self) -> tuple[type["TokenCache"], tuple[int]]:
        """A copy, in this process or another, begins empty."""
        return TokenCache, (self.size,)

    def vectors(
        self, words: Sequence[str], encoder: nn.Module, compute: Compute
    ) -> Tensor:
        """Vectors of distinct words, (V, H), those that are missing computed.

        encoder: whose weights compute depends on.
        """
        weights = list(encoder.parameters())
        state = state_of(weights)
        with self._lock:
            if state != self._made_with:
                self._begin(weights)
            n_fixed, cleared = len(self._fixed), self._cleared
            known = [
                self._fixed[word] if word in self._fixed else self._rows.get(word, -1)
                for word in words
            ]
            for word, row in zip(words, known):
                if row >= n_fixed:
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
        """Of more words than fit the last ones."""
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
                    row = len(self._fixed) + len(self._rows)
                    if len(self._rows) == self.size:
                        _, row = self._rows.popitem(last=False)
                self._rows[word] = row
                rows.append(row)
            self._vectors_KH[torch.tensor(rows)] = new_MH

    def _grow(self, n: int, like_MH: Tensor) -> None:
        """Room for n rows beside those that stay, doubled each time, so that a small
        text takes little."""
        have, n_fixed = len(self._vectors_KH), len(self._fixed)
        if n_fixed + n <= have or have == n_fixed + self.size:
            return
        size = n_fixed + min(self.size, max(n, 2 * (have - n_fixed), 1024))
        larger = like_MH.new_empty(size, like_MH.shape[1])
        if have:
            larger[:have] = self._vectors_KH
        self._vectors_KH = larger
