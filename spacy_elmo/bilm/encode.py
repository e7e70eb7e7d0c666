"""Sentences -> arrays: the layers of each, from the state that it starts from.

Shapes: L1 layers (the token layer included), T tokens, D width, B sentences.
"""

import warnings
from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from ..errors import Errors, Warnings
from .batch import PackedBatch, batch_by_tokens, compute_what_fits, pack
from .lstm import BiLMState

Start = Literal["zeros", "boundary"]
STARTS = ("zeros", "boundary")

# The state that <S> </S> repeated leads to is taken as reached when a pass moves it by
# less than this part of its largest value: a few roundings of float32. It takes about
# 120 passes at the small published size.
BOUNDARY_TOLERANCE = 1e-6
BOUNDARY_PASSES = 200


class Reader(Protocol):
    """A model that reads batches."""

    def __call__(
        self, batch: PackedBatch, state: BiLMState
    ) -> tuple[Tensor, BiLMState]:
        """Return the layers of a batch, (L1, N, D), and the state after it."""

    def zero_state(self, batch_size: int) -> BiLMState:
        """Return the state of new sentences."""


def encode(
    model: Reader,
    sentences: Sequence[Sequence[str]],
    batch_tokens: int,
    start: Start,
) -> list[np.ndarray]:
    """Return the layers of sentences. Arguments and errors are `BiLM.encode`'s."""
    _check_sentences(sentences)
    if batch_tokens < 1:
        raise ValueError(Errors.EL026.format(found=batch_tokens))
    if start not in STARTS:
        raise ValueError(Errors.EL021.format(start=start))
    encoded: list[np.ndarray] = [np.empty(0)] * len(sentences)
    if not sentences:
        return encoded
    boundary = boundary_state(model) if start == "boundary" else None

    def encode_group(group: Sequence[int]) -> list[np.ndarray]:
        state = model.zero_state(len(group))
        if boundary is not None:
            state = boundary.map(lambda part: part.repeat(1, len(group), 1))
        return encode_batch(model, [sentences[b] for b in group], state)[0]

    for whole in batch_by_tokens(sentences, batch_tokens):
        for group, arrays in compute_what_fits(sentences, whole, encode_group):
            for b, array in zip(group, arrays):
                encoded[b] = array
    return encoded


def encode_stateful(
    model: Reader, sentences: Sequence[Sequence[str]], state: BiLMState | None
) -> tuple[list[np.ndarray], BiLMState]:
    """Return the layers of one batch, and the state after it. Arguments and errors are
    `BiLM.encode_stateful`'s."""
    _check_sentences(sentences)
    if state is None:
        state = model.zero_state(len(sentences))
    rows = state.forward.h.shape[1]
    if rows != len(sentences):
        raise ValueError(Errors.EL024.format(found=rows, expected=len(sentences)))
    return encode_batch(model, sentences, state)


def encode_batch(
    model: Reader, sentences: Sequence[Sequence[str]], state: BiLMState
) -> tuple[list[np.ndarray], BiLMState]:
    """Return float32 layers (L1, T, D) of each sentence of a batch, boundaries removed,
    and the state after its last step, row by row in the order of the sentences."""
    if not sentences:
        return [], state
    batch = pack(sentences)
    order_B = torch.from_numpy(batch.order_B).to(state.forward.h.device)
    layers_LND, packed_state = model(batch, state.select(order_B))
    layers = layers_LND.float().cpu().numpy()
    arrays = [
        np.ascontiguousarray(layers[:, positions]) for positions in batch.positions
    ]
    return arrays, packed_state.select(torch.argsort(order_B))


def boundary_state(model: Reader) -> BiLMState:
    """Return the state that empty sentences lead to, of one sequence.

    Cells of a model without cell_clip may grow with every sentence, and lead nowhere:
    then a warning [ELW51] says so, and the state after the last pass is returned.
    """
    batch, state = pack([[]]), model.zero_state(1)
    for _ in range(BOUNDARY_PASSES):
        before, (_, state) = state, model(batch, state)
        if _largest_move(before, state) < BOUNDARY_TOLERANCE:
            return state
    warnings.warn(Warnings.ELW51.format(passes=BOUNDARY_PASSES), stacklevel=4)
    return state


def _largest_move(before: BiLMState, after: BiLMState) -> float:
    """Return the largest change of a state, relative to its largest value."""
    pairs = [pair for directions in zip(before, after) for pair in zip(*directions)]
    return max(float((new - old).abs().max() / new.abs().max()) for old, new in pairs)


def _check_sentences(sentences: Sequence[Sequence[str]]) -> None:
    for sentence in [sentences, *sentences]:
        if isinstance(sentence, str) or not isinstance(sentence, Sequence):
            raise ValueError(Errors.EL025.format(found=type(sentence).__name__))
    for sentence in sentences:
        for token in sentence:
            if not isinstance(token, str):
                raise ValueError(
                    Errors.EL025.format(found=f"a {type(token).__name__} token")
                )
