"""The biLM of a plan, and the rows that it makes of sentences: layers that are kept, in
a number type, for tokens, sentences or documents.

Shapes: L1 layers (the token layer included), T tokens, D width, K layers that are kept
side by side, R rows that are written.
"""

import math
import platform
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from mmap import mmap
from operator import itemgetter
from typing import cast

import numpy as np
import spacy
import torch
from spacy.pipeline import TrainablePipe
from thinc.api import NumpyOps

from ..bilm import BiLM
from ..bilm.kernels import find_library, force
from ..errors import Errors
from ..machine import Precision, cpu_model, default_settings, device_name
from ..models import find
from ..pipeline import (
    Elmo,
    ElmoListener,
    LearnedMix,
    elmo_of,
    learned_mixes,
    load_pipeline,
    normalize,
    shares,
)

# Tokens that are encoded together, and the number of their (first) row.
Unit = tuple[int, list[str]]
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
        check_setting("dtype", self.dtype, DTYPES)
        check_setting("pool", self.pool, POOLS)
        if self.dimensions is not None:
            check_setting("dimensions", self.dimensions, range(1, self.width + 1))

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


@dataclass(frozen=True)
class Computing:
    """How vectors are computed.

    Attributes:
        precision: "float32", "half", or "tf32" on a GPU, as in `BiLM.set_precision`.
        device: "cpu" or "cuda".
        threads: Threads of each process.
        batch_tokens: Most tokens of a batch.
        block_tokens: Tokens that are read before they are sorted into batches.
        exact: Whether a sentence has the same vectors, bit for bit, in any batch. Then
            it can be verified alone; otherwise a shard is verified as a whole.
        kernels: Part and name of each kernel that was forced when the plan was made.
    """

    precision: str = "float32"
    device: str = "cpu"
    threads: int = 1
    batch_tokens: int = 2048
    block_tokens: int = 4096
    exact: bool = True
    kernels: tuple[tuple[str, str], ...] = ()


def check_setting(name: str, found: object, choices: Collection[object]) -> None:
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


def load_model(
    source: str, mix_of: str | None = None, *, is_installed: bool = False
) -> tuple[BiLM, LearnedMix | None]:
    """Return a biLM and, from a pipeline, a mix of its layers.

    Args:
        source: Name of a shipped model, folder or file of weights, or a pipeline,
            installed or in a folder.
        mix_of: Component of the pipeline whose mix is used; None for `elmo` itself.
        is_installed: Whether the source is the name of an installed pipeline, even if
            there is a folder of this name.

    Raises:
        ValueError: [EL215] There is no such mix.
        Exception: As `load_pipeline` and `BiLM.load`.
    """
    nlp = spacy.load(source) if is_installed else load_pipeline(source)
    name = mix_of or "elmo"
    if nlp is None:
        if mix_of is not None:
            raise Errors.EL215(name=name, source=source)
        return BiLM.load(find(source)), None
    elmo = elmo_of(nlp)
    if mix_of is None and elmo is not None:
        return elmo.bilm, _mix_of_tensor(elmo)
    pipe = nlp.get_pipe(name) if name in nlp.pipe_names else None
    nodes = pipe.model.walk() if isinstance(pipe, TrainablePipe) else ()
    listeners = [node for node in nodes if isinstance(node, ElmoListener)]
    if len(listeners) != 1 or not isinstance(listeners[0].upstream, Elmo):
        raise Errors.EL215(name=name, source=source)
    (mix,) = [mix for mix in learned_mixes(nlp) if mix.component == name]
    return listeners[0].upstream.bilm, mix


def _mix_of_tensor(elmo: Elmo) -> LearnedMix:
    settings, ops = elmo.settings, elmo.model.ops
    weights_L = ops.asarray1f(settings.first_weights(elmo.n_layers))
    row = [float(share) for share in shares(ops, settings, weights_L)]
    kind, norm = settings.mix, settings.layer_norm
    return LearnedMix(elmo.name, 1, kind, settings.gamma, row, norm)


def processor(device: str) -> str:
    """Return the kind of processor that vectors are computed on. A CPU is named with
    the instructions that torch and, where it is there, the C library use."""
    if device == "cuda":
        return str(torch.cuda.get_device_name())
    name = cpu_model() or platform.machine()
    instructions = torch.backends.cpu.get_cpu_capability()
    if library := find_library():
        instructions += f", {library.instructions}"
    return f"{name[:200]} ({instructions})"


class Encoder:
    """Encodes sentences, and makes the rows of their layers that a plan asks for.

    Args:
        bilm: The model, which is moved to the device.
        kept: What is kept.
        computing: How it is computed.
        gpu_id: Number of the GPU where the device is "cuda".

    Raises:
        ValueError: [EL077] The processor does not have the precision; [EL207] the
            device is unknown; [EL151] there is no such GPU.
    """

    def __init__(
        self,
        bilm: BiLM,
        kept: Kept,
        computing: Computing,
        gpu_id: int = 0,
    ) -> None:
        check_setting("device", computing.device, ("cpu", "cuda"))
        on_gpu = computing.device == "cuda"
        self.bilm = bilm.to(device_name(max(0, gpu_id) if on_gpu else -1)).eval()
        self.bilm.token_cache.size = 16_384  # 8 MB at the small published size
        self.kept, self.computing = kept, computing
        self.bilm.set_precision(cast(Precision, computing.precision))

    def rows(
        self,
        units: Iterable[Unit],
        tell: Callable[[int], object] = lambda n_tokens: None,
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Encode the sentences of a shard, a block at a time. Yield float32 rows
        (R, ..., D) in order, with the number of the first.

        Args:
            units: Sentences, with the numbers of their rows.
            tell: A function that is called with the number of tokens of each block.
        """
        if not self.computing.exact:  # or it would depend on the shard before
            self.bilm.token_cache.clear()
        encoded = self._encode(units, tell)
        if self.kept.pool == "token":
            yield from encoded
            return
        for row, pieces in groupby(encoded, key=itemgetter(0)):
            total, n_tokens = np.zeros(()), 0
            for _, vectors in pieces:
                total = total + vectors.sum(axis=0, dtype=np.float64)
                n_tokens += len(vectors)
            yield row, (total / max(1, n_tokens)).astype(np.float32)[None]

    def _encode(
        self, units: Iterable[Unit], tell: Callable[[int], object]
    ) -> Iterator[tuple[int, np.ndarray]]:
        for block in _blocks(units, self.computing.block_tokens):
            sentences = [tokens for _, tokens in block]
            for (row, _), vectors in zip(block, self(sentences)):
                yield row, vectors
            tell(sum(map(len, sentences)))

    @default_settings()
    def __call__(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Return float32 (T, ..., D) for each sentence. Raises MemoryError [EL096]."""
        lengths = [len(sentence) for sentence in sentences]
        # In pages of their own: among the pages of the batches they would leave gaps.
        shape = sum(lengths), *self.kept.row_shape
        try:
            pages = mmap(-1, max(1, 4 * math.prod(shape)))
        except OSError as error:  # not of a file
            raise Errors.EL096() from error
        rows = np.frombuffer(pages, np.float32, math.prod(shape)).reshape(shape)
        found = np.split(rows, np.cumsum(lengths))[:-1]
        batch_tokens = self.computing.batch_tokens
        with force(**dict(self.computing.kernels)):
            layers_of = self.bilm.encode_each(sentences, batch_tokens=batch_tokens)
            for s, layers in layers_of:
                found[s][:] = self.kept.combine(layers)
        return found


def _blocks(units: Iterable[Unit], n_tokens: int) -> Iterator[list[Unit]]:
    block: list[Unit] = []
    size = 0
    for unit in units:
        length = len(unit[1]) + 2  # with its boundaries, as in a batch
        if block and size + length > n_tokens:
            yield block
            block, size = [], 0
        block.append(unit)
        size += length
    if block:
        yield block


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
        packed = _converted(rows, dtype)
    # A value that is not finite, or too large for float16, stays so when packed.
    if not np.isfinite(rows if dtype == "int8" else unpack(packed, None)).all():
        raise Errors.EL210(dtype=dtype)
    return packed, scales


def unpack(rows: np.ndarray, scales: np.ndarray | None) -> np.ndarray:
    """Return packed rows as float32, without a copy if they are float32."""
    values = _converted(rows, "float32")
    return values if scales is None else values * scales[..., None]


def _converted(rows: np.ndarray, dtype: str) -> np.ndarray:
    """Convert rows to a type, without a copy if they have it. torch converts float16
    several times as fast as NumPy."""
    if "float16" not in (dtype, rows.dtype.name):
        return rows.astype(DTYPES[dtype], copy=False)
    return np.asarray(torch.tensor(rows, device="cpu").to(getattr(torch, dtype)))
