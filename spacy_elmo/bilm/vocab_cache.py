"""Token vectors of a vocabulary, computed once and kept in a file beside the weights.

A text of known words then needs no char-CNN; other words take it as ever. The file
belongs to its weights, by their fingerprint, and goes when they change.

Shapes: F words, H token vector.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as deserialize
from safetensors.torch import save as serialize
from torch import Tensor

from ..atomic_files import write_files
from ..errors import Errors
from .bilm import BiLM
from .files.own import VOCAB_CACHE

WORDS_AT_ONCE = 1024
Progress = Callable[[Sequence[range]], Iterable[range]]


def make(
    bilm: BiLM, words: Sequence[str], folder: Path, progress: Progress = lambda r: r
) -> int:
    """Write the vectors of words into a model's folder.

    progress: goes through the parts of the work, for a bar.
    RETURNS: how many different words there are.
    Raises ValueError [EL079] if there is none, OSError [EL013].
    """
    words = list(dict.fromkeys(words))
    if not words:
        raise ValueError(Errors.EL079.format(path=folder, problem="there is no word"))
    parts = [
        range(start, min(start + WORDS_AT_ONCE, len(words)))
        for start in range(0, len(words), WORDS_AT_ONCE)
    ]
    precision = bilm.precision
    bilm.set_precision("float32")
    try:
        with torch.no_grad():
            vectors_FH = torch.cat(
                [
                    bilm.compute_token_vectors(words[part.start : part.stop]).cpu()
                    for part in progress(parts)
                ]
            )
    finally:
        bilm.set_precision(precision)
    data = pack(words, vectors_FH, bilm.fingerprint())
    write_files(folder, {VOCAB_CACHE: lambda path: path.write_bytes(data)})
    return len(words)


def pack(words: Sequence[str], vectors_FH: Tensor, belongs_to: str) -> bytes:
    """A safetensors file. belongs_to: the fingerprint of the weights."""
    # A length for each, since a word may hold any character; some no UTF-8 knows.
    encoded = [word.encode("utf-8", "surrogatepass") for word in words]
    return serialize(
        {
            "vectors": vectors_FH.cpu().contiguous(),
            "words": _bytes(b"".join(encoded)),
            "lengths": torch.tensor([len(word) for word in encoded]),
            "fingerprint": _bytes(belongs_to.encode()),
        }
    )


def attach(bilm: BiLM, data: bytes, source: object) -> None:
    """Let a biLM use packed vectors.

    Raises ValueError [EL078] if they belong to other weights, [EL079] if they are
    damaged.
    """
    try:
        arrays = deserialize(data)
        belongs_to = arrays["fingerprint"].numpy().tobytes().decode()
        vectors_FH = arrays["vectors"]
        words = _words(arrays["words"], arrays["lengths"])
        shape = tuple(vectors_FH.shape)
        if shape != (len(words), bilm.config.projection_dim):
            raise ValueError(f"vectors of the shape {shape}")
        if vectors_FH.dtype != torch.float32:
            raise ValueError(f"vectors of type {vectors_FH.dtype}")
        if len(set(words)) != len(words):
            raise ValueError("a word twice")
        if not torch.isfinite(vectors_FH).all():
            raise ValueError("vectors that are not finite")
    except (
        SafetensorError, KeyError, TypeError, ValueError, RuntimeError, OverflowError,
    ) as error:  # fmt: skip
        raise ValueError(Errors.EL079.format(path=source, problem=error)) from error
    if belongs_to != bilm.fingerprint():
        raise ValueError(Errors.EL078.format(path=source))
    bilm.token_cache.fix(words, vectors_FH.to(bilm.device), bilm.token_encoder)


def attach_file(bilm: BiLM, path: Path) -> None:
    """As `attach`."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ValueError(Errors.EL079.format(path=path, problem=error)) from error
    attach(bilm, data, path)


def _bytes(data: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(data, dtype=np.uint8).copy())


def _words(bytes_N: Tensor, lengths_F: Tensor) -> list[str]:
    if bytes_N.dtype != torch.uint8 or lengths_F.dtype != torch.int64:
        raise ValueError("words of another type")
    data, lengths = bytes_N.numpy().tobytes(), lengths_F.tolist()
    if sum(lengths) != len(data) or min(lengths, default=0) < 0:
        raise ValueError("words that are not whole")
    words, start = [], 0
    for length in lengths:
        word = data[start : start + length]
        words.append(word.decode("utf-8", "surrogatepass"))
        start += length
    return words
