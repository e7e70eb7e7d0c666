"""The C library (elmo.h): its instruction set, packed weights, and the checks before a
call.

Every output is a sum over k in one fixed order, for any number of rows and of threads.
So a sentence has the same bits alone and in any batch. In float32 all instruction sets
give the same bits.

Shapes: K rows and N columns of a matrix.
"""

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ....errors import Errors

try:
    from ._elmo import ffi, lib  # type: ignore[import-not-found,unused-ignore]
except ImportError:  # the package was installed without a C compiler
    ffi = lib = None

# The best first.
INSTRUCTIONS = ("avx512_bf16", "avx512", "avx2", "neon")
FLOAT32, WIDENED, BFLOAT16 = range(3)  # the modes of elmo.h


class Library:
    """The functions of one instruction set.

    Attributes:
        instructions: Name of the instruction set.
        vector: Columns of a vector. A group has four vectors (kernels.h).
    """

    def __init__(self, instructions: str, functions: Any) -> None:
        self.instructions, self._functions = instructions, functions
        self.vector = int(functions.vector)

    def mode(self, precision: str) -> int:
        """Return the mode of matrix multiplications in a precision. Half precision is
        bfloat16. A processor that can't multiply it widens weights to float32."""
        if precision == "float32":
            return FLOAT32
        return BFLOAT16 if self._functions.has_bfloat16 else WIDENED

    def columns(self, N: int, n_matrices: int = 1) -> Tensor:
        """Return the order of columns in groups, for matrices that stand side by side.
        A group has equally many columns of each matrix. -1 stands for a column that no
        matrix has.

        Args:
            N: Number of columns of each matrix.
            n_matrices: Number of matrices.
        """
        size = 4 * self.vector // n_matrices
        first = torch.arange(-(-N // size) * size).view(-1, 1, size)
        columns = first + N * torch.arange(n_matrices)[:, None]
        return torch.where(first < N, columns, -1).flatten()

    def pack(self, mode: int, columns: Tensor, *weights_KN: Tensor) -> Tensor:
        """Return a packed matrix: (panels, K, columns) in float32, (panels, K / 2,
        columns, 2) in bfloat16.

        Args:
            mode: How the library multiplies by it.
            columns: The columns to pack, -1 for a column of zeros.
            weights_KN: The matrix, in parts that stand side by side.
        """
        pairs, dtype = (1, torch.float32) if mode == FLOAT32 else (2, torch.bfloat16)
        width = int(self._functions.panel) * self.vector
        K, n_panels = len(weights_KN[0]), len(columns) // width
        packed = torch.zeros(n_panels, -(-K // pairs), width, pairs, dtype=dtype)
        # One panel after another: copies of the whole matrix would take memory.
        for panel, its_columns in zip(packed, columns.split(width)):
            rows_KW = pick(its_columns, *weights_KN)
            for i in range(pairs):
                of_pairs = rows_KW[i::pairs]
                panel[: len(of_pairs), :, i] = of_pairs
        return packed.squeeze(-1) if pairs == 1 else packed

    def new(self, kind: str, **fields: Any) -> Any:
        """Return a struct of elmo.h. A field may be a list of addresses. The tensors
        must outlive the struct."""
        for name, value in fields.items():
            is_list = isinstance(value, list)
            fields[name] = [*map(address, value)] if is_list else address(value)
        return ffi.new(f"{kind} *", fields)

    def array(self, kind: str, structs: list[dict[str, Tensor]]) -> Any:
        """Return an array of structs of elmo.h, each given by its fields. The tensors
        must outlive the array."""
        return ffi.new(
            f"{kind}[]",
            [dict(zip(fields, map(address, fields.values()))) for fields in structs],
        )

    def call(self, name: str, task: Any) -> None:
        """Call a function on torch's number of threads. Raises MemoryError [EL096] if
        there is no memory for its buffers."""
        if getattr(self._functions, name)(task, torch.get_num_threads()):
            raise Errors.EL096()


@cache
def best() -> Library | None:
    """Return the library with the best instruction set of this processor. Return None
    if the library was not built, or if the processor has none of INSTRUCTIONS."""
    return next(filter(None, map(_load, INSTRUCTIONS)), None)


def load(instructions: str | None) -> Library:
    """Return the library with an instruction set. Raises ValueError [EL150] if the
    processor does not have it, or if the library was not built."""
    library = None if instructions is None else _load(instructions)
    if library is None:
        known = ", ".join([*filter(_load, INSTRUCTIONS), "none"])
        raise Errors.EL150(part="instructions", name=instructions, known=known)
    return library


def is_built() -> bool:
    """Return whether the library was built when this package was installed."""
    return ffi is not None


@cache
def _load(instructions: str) -> Library | None:
    functions = ffi and lib.elmo_find(instructions.encode())
    return Library(instructions, functions) if functions else None


def address(value: Any) -> Any:
    """Return the address of a tensor's numbers, and any other value as it is."""
    is_tensor = isinstance(value, Tensor)
    return ffi.cast("void *", value.data_ptr()) if is_tensor else value


def pick(columns: Tensor, *values_N: Tensor) -> Tensor:
    """Return these columns of tensors that stand side by side, and zeros for -1."""
    picked = values_N[0].new_zeros(*values_N[0].shape[:-1], len(columns))
    first = 0
    for values in values_N:
        within = columns - first
        is_here = (within >= 0) & (within < values.shape[-1])
        picked[..., is_here] = values[..., within[is_here]]
        first += values.shape[-1]
    return picked


def checked_floats(x: Tensor, *shape: int) -> Tensor:
    """Return a contiguous tensor for the library. Raises TypeError if it has another
    shape or dtype: the library would read memory behind its end.

    NumPy makes the copy if one is needed. A second thread of torch would look for more
    work for a while, on the processor that the library's second thread needs."""
    if x.shape != shape or x.dtype != torch.float32 or x.device.type != "cpu":
        raise TypeError(f"float32 {shape} on a CPU expected, not {x.dtype} {x.shape}")
    return torch.from_numpy(np.ascontiguousarray(x.detach().numpy()))


def checked_rows(rows: Tensor, n_rows: int, *shape: int) -> Tensor:
    """Return contiguous row numbers for the library. Raises TypeError if they have
    another shape, IndexError if one is not in range(n_rows)."""
    if rows.shape != shape:
        raise TypeError(f"{shape} numbers expected, not {tuple(rows.shape)}")
    rows = rows.to("cpu", torch.int64).contiguous()
    if rows.numel():
        least, most = rows.aminmax()
        if int(least) < 0 or int(most) >= n_rows:
            raise IndexError(f"rows {int(least)} to {int(most)} of {n_rows}")
    return rows
