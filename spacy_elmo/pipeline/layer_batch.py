"""The layers of several Docs in one array."""

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, overload

from thinc.types import Floats3d


def nothing() -> None:
    """Do nothing."""


class LayerBatch(Sequence[Floats3d]):
    """The layers of Docs in one array, the tokens of each Doc after those of the last.

    As a sequence it holds the layers of each Doc, (L1, T, D): views, which keep the
    whole array in memory as long as one of them is kept.

    Args:
        values: float32 (L1 layers, N tokens of all Docs, width D).
        lengths: Number of tokens of each Doc; their sum is N.
        check: Raises ValueError [EL078] if some are not finite; a GPU is waited for.
    """

    def __init__(
        self,
        values: Floats3d,
        lengths: Sequence[int],
        check: Callable[[], None] = nothing,
    ) -> None:
        self.values, self.check = values, check
        self.lengths = list(lengths)
        self._starts = list(accumulate(self.lengths, initial=0))

    def __len__(self) -> int:
        return len(self.lengths)

    @overload
    def __getitem__(self, which: int) -> Floats3d: ...
    @overload
    def __getitem__(self, which: slice) -> "LayerBatch": ...
    def __getitem__(self, which: int | slice) -> "Floats3d | LayerBatch":
        """Return the layers of one Doc, or those of neighbouring Docs as a batch."""
        values: Any = self.values
        if isinstance(which, int):
            d = range(len(self))[which]
            return values[:, self._starts[d] : self._starts[d + 1]]
        start, stop, _ = which.indices(len(self))
        part = values[:, self._starts[start] : self._starts[max(start, stop)]]
        return LayerBatch(part, self.lengths[start:stop])

    def __repr__(self) -> str:
        shape = tuple(self.values.shape)
        return f"LayerBatch of {len(self)} Docs, (layers, tokens, width) = {shape}"

    def split(self, rows: Any) -> list[Any]:
        """Return the rows of each Doc, of an array (N, ...) with one a token."""
        return [rows[start:stop] for start, stop in pairwise(self._starts)]
