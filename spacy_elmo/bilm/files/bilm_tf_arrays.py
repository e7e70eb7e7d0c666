"""Names and layouts of the arrays in bilm-tf's HDF5 files."""

import numpy as np
import torch
from torch import Tensor

from ..config import BiLMConfig

_DIRECTIONS = {"forward_lstm": "RNN_0", "backward_lstm": "RNN_1"}
_THEIRS_TO_OURS = (3, 0, 2, 1)  # where our gates o, i, f, g stand among i, j, f, o
_OURS_TO_THEIRS = (1, 3, 2, 0)


class Array:
    """One array of theirs, and how it becomes ours and back.

    Args:
        theirs: Its name in the HDF5 file.
    """

    def __init__(self, theirs: str) -> None:
        self.theirs = theirs

    def our_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape that `read` gives an array of a shape."""
        return shape

    def read(self, array: np.ndarray) -> Tensor:
        """Return our layout of an array of theirs."""
        return torch.from_numpy(array)

    def write(self, tensor: Tensor) -> np.ndarray:
        """Return their layout of a tensor of ours."""
        return tensor.numpy()


class _CharTable(Array):
    def our_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (shape[0] + 1, *shape[1:]) if shape else shape

    def read(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.pad(array, [(1, 0), (0, 0)]))

    def write(self, tensor: Tensor) -> np.ndarray:
        return tensor[1:].numpy()


class _Conv(Array):  # (1, width, char_dim, n) <-> (n, char_dim, width)
    def our_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (
            (shape[3], shape[2], shape[1])
            if len(shape) == 4 and shape[0] == 1
            else shape
        )

    def read(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array[0].transpose(2, 1, 0)))

    def write(self, tensor: Tensor) -> np.ndarray:
        return np.ascontiguousarray(tensor.numpy().transpose(2, 1, 0)[None])


class _Gates(Array):
    """The last axis holds four gates. W_0 is [W_x; W_h]: part 0 or 1 of it is taken."""

    def __init__(self, theirs: str, part: int | None = None) -> None:
        super().__init__(theirs)
        self.part = part

    def our_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        if self.part is None or len(shape) != 2:
            return shape
        return ((shape[0] + 1 - self.part) // 2, shape[1])

    def read(self, array: np.ndarray) -> Tensor:
        if self.part is not None:
            array = np.split(array, 2)[self.part]
        return torch.from_numpy(_reorder(array, _THEIRS_TO_OURS))

    def write(self, tensor: Tensor) -> np.ndarray:
        return _reorder(tensor.numpy(), _OURS_TO_THEIRS)


def _reorder(array: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    gates = np.split(array, 4, axis=-1)
    return np.ascontiguousarray(np.concatenate([gates[i] for i in order], axis=-1))


def arrays_of(config: BiLMConfig) -> dict[str, Array]:
    """Return their array for each of our state-dict keys."""
    names: dict[str, Array] = {}
    encoder = "token_encoder"
    if config.n_words:
        names[f"{encoder}.embedding"] = Array("embedding")
    else:
        names[f"{encoder}.char_embedding"] = _CharTable("char_embed")
        for i in range(len(config.filters)):
            names[f"{encoder}.conv_weights.{i}"] = _Conv(f"CNN/W_cnn_{i}")
            names[f"{encoder}.conv_biases.{i}"] = Array(f"CNN/b_cnn_{i}")
        for k in range(config.n_highway):
            for gate in ("carry", "transform"):
                ours, theirs = f"{encoder}.highways.{k}.{gate}", f"CNN_high_{k}"
                names[f"{ours}_weight"] = Array(f"{theirs}/W_{gate}")
                names[f"{ours}_bias"] = Array(f"{theirs}/b_{gate}")
        if config.token_projection:
            names[f"{encoder}.projection_weight"] = Array("CNN_proj/W_proj")
            names[f"{encoder}.projection_bias"] = Array("CNN_proj/b_proj")
    for direction, rnn in _DIRECTIONS.items():
        for layer in range(config.n_layers):
            ours = f"{direction}.layers.{layer}"
            theirs = f"{rnn}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            names[f"{ours}.weight_x"] = _Gates(f"{theirs}/W_0", part=0)
            names[f"{ours}.weight_h"] = _Gates(f"{theirs}/W_0", part=1)
            names[f"{ours}.bias"] = _Gates(f"{theirs}/B")
            if config.lstm_projection:
                names[f"{ours}.weight_p"] = Array(f"{theirs}/W_P_0")
    return names
