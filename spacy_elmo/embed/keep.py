"""Which layers are kept, in which number type, for tokens, sentences or documents.

Shapes: L1 layers (the token layer included), T tokens, D width, K layers that are kept
side by side, R rows that are written.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from thinc.api import NumpyOps

from ..errors import Errors
from ..pipeline import LearnedMix, normalize

DTYPES = {"float32": np.float32, "float16": np.float16, "int8": np.int8}
POOLS = ("token", "sentence", "doc")


@dataclass(frozen=True)
class Kept:
    """The content of a row. Raises ValueError [EL207] for a value that is not possible.

    Attributes:
        weights: Weight of each layer in a sum, gamma included; None if the layers are
            kept side by side.
        layers: Numbers of the layers.
        width: D of a layer.
        dtype: "float32", "float16", or "int8" with a scale for each vector.
        pool: "token" for a row of each token, "sentence" or "doc" for means.
        dimensions: Width after the projection that version 0.2 could make; else None.
        layer_norm: Whether each layer is brought to mean 0 and variance 1 before the
            sum.
    """

    weights: tuple[float, ...] | None
    layers: tuple[int, ...]
    width: int
    dtype: str = "float32"
    pool: str = "token"
    dimensions: int | None = None
    layer_norm: bool = False

    def __post_init__(self) -> None:
        choose("dtype", self.dtype, DTYPES)
        choose("pool", self.pool, POOLS)
        if self.dimensions is not None:
            choose("dimensions", self.dimensions, range(1, self.width + 1))

    @property
    def row_shape(self) -> tuple[int, ...]:
        """(D,) or (K, D)."""
        width = self.dimensions or self.width
        several = self.weights is None and len(self.layers) > 1
        return (len(self.layers), width) if several else (width,)

    def combine(self, layers_LTD: np.ndarray) -> np.ndarray:
        """Combine the layers of a sentence, (L1, T, D), into (T, D) or (T, K, D)."""
        if self.weights is None:
            kept = layers_LTD[list(self.layers)].swapaxes(0, 1)
            return kept if len(self.layers) > 1 else kept[:, 0]
        if self.layer_norm:
            layers_LTD = normalize(NumpyOps(), layers_LTD)
        # One layer after the other, so that every element is rounded in one way.
        kept = layers_LTD[0] * np.float32(self.weights[0])
        for weight, layer_TD in zip(self.weights[1:], layers_LTD[1:]):
            kept += layer_TD * np.float32(weight)
        return kept


def choose(name: str, found: object, choices: Collection[object]) -> None:
    """Raise ValueError [EL207] if a setting is none of the choices."""
    # A range compares anything but an int with each of its numbers.
    is_possible = isinstance(found, int) or not isinstance(choices, range)
    if not is_possible or found not in choices:
        if isinstance(choices, range):
            text = f"{choices[0]} to {choices[-1]}"
        else:
            text = ", ".join(map(str, choices))
        raise Errors.EL207(name=name, found=found, known=text)


def parse_layers(
    text: str, n_layers: int, mix: LearnedMix | None
) -> tuple[tuple[float, ...] | None, tuple[int, ...], bool]:
    """Return `Kept.weights`, `layers` and `layer_norm` for an option `--layers`.

    Args:
        text: "mix", "average", "top", "all" or numbers such as "0,2".
        n_layers: L1.
        mix: A trained mix, for "mix".

    Raises:
        ValueError: [EL207] if it is none of these.
    """
    every = tuple(range(n_layers))
    if text == "mix" and mix is not None:
        return tuple(mix.gamma * share for share in mix.shares), every, mix.layer_norm
    if text == "average":
        return (1 / n_layers,) * n_layers, every, False
    if text in ("all", "top"):
        return None, every if text == "all" else every[-1:], False
    numbers = text.split(",")
    if not all(n.strip().isdecimal() and int(n) in every for n in numbers):
        choices = f"average, top, all, numbers such as 0,2 up to {n_layers - 1}, mix "
        choices += "(with a pipeline as the model)"
        raise Errors.EL207(name="layers", found=text, known=choices)
    return None, tuple(int(number) for number in numbers), False


def pack(rows: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Convert rows (R, ..., D) to the type that is written. Return them and, for int8,
    their scales (R, ...). Raises ValueError [EL210] for values that the type can't
    hold."""
    scales = None
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype == "int8":
            scales = np.abs(rows).max(axis=-1) / np.float32(127)
            steps = np.where(scales > 0, scales, np.float32(1))
            rows = np.rint(rows / steps[..., None])
        packed = rows.astype(DTYPES[dtype], copy=False)
    # A value that is not finite, or too large for float16, stays so when packed.
    if not np.isfinite(rows if dtype == "int8" else packed).all():
        raise Errors.EL210(dtype=dtype)
    return packed, scales


def unpack(rows: np.ndarray, scales: np.ndarray | None) -> np.ndarray:
    """Return packed rows as float32, without a copy if they are float32."""
    values = rows.astype(np.float32, copy=False)
    return values if scales is None else values * scales[..., None]
