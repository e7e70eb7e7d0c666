"""Out of GPU memory: the same batch again, in halves."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch

from ..errors import Errors, Warnings

T = TypeVar("T")


def in_halves(
    sentences: Sequence[Sequence[str]],
    group: Sequence[int],
    compute: Callable[[Sequence[int]], T],
) -> Iterator[tuple[Sequence[int], T]]:
    """Results of a group of sentences, computed at once or, where the GPU's memory does
    not hold that, in halves, and halves of these.

    group: which of the sentences. compute: from such numbers to their result.
    RETURNS: parts of the group in order, and the result of each.
    Raises MemoryError [EL080] if not even one sentence fits.
    """
    try:
        result = compute(group)
    except torch.cuda.OutOfMemoryError as error:
        tokens = sum(len(sentences[i]) + 2 for i in group)
        if len(group) == 1:
            message = Errors.EL080.format(tokens=tokens, fits=max(1, tokens // 2))
            raise MemoryError(message) from error
    else:
        yield group, result
        return
    # Out of the handler, which holds what was computed so far.
    torch.cuda.empty_cache()
    warnings.warn(Warnings.ELW06.format(tokens=tokens, fits=tokens // 2), stacklevel=2)
    middle = len(group) // 2
    yield from in_halves(sentences, group[:middle], compute)
    yield from in_halves(sentences, group[middle:], compute)
