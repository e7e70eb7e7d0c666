"""Reading a folder of vectors, finished or not: documents by number or id."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from spacy.tokens import Doc
from torch.utils.data import Dataset

from ..errors import Errors
from ..text.reading import MAX_TOKEN
from .columns import strings
from .folder import SHARDS, names_of_shards
from .plan import Plan, read_plan
from .sinks import Shard

OPEN_SHARDS = 64


class EmbeddedSentence(NamedTuple):
    """Text of the tokens, and vectors (T, ..., D), or (..., D) of a pooled sentence."""

    tokens: list[str]
    vectors: np.ndarray


@dataclass(frozen=True)
class Piece:
    """The part of a document that a shard holds.

    Attributes:
        shard: The shard.
        document: Number of the document in the shard.
        pool: As in `Kept`.
    """

    shard: Shard
    document: int
    pool: str

    @property
    def sentences(self) -> tuple[int, int]:
        """Its first sentence in the shard, and the one after its last."""
        offsets = self.shard.arrays["document_offsets"]
        return int(offsets[self.document]), int(offsets[self.document + 1])

    @property
    def tokens(self) -> tuple[int, int]:
        """Its first token in the shard, and the one after its last."""
        first, last = self.sentences
        if self.pool == "doc":  # which offsets of documents count
            return first, last
        offsets = self.shard.arrays["sentence_offsets"]
        return int(offsets[first]), int(offsets[last])

    @property
    def rows(self) -> tuple[int, int]:
        """Its first row in the shard, and the one after its last."""
        places = {"token": self.tokens, "sentence": self.sentences}
        return places.get(self.pool, (self.document, self.document + 1))

    def vectors(self, start: int, stop: int) -> np.ndarray:
        """Return rows; a view if they are not int8."""
        if "scales" in self.shard.arrays:
            return self.shard.vectors(start, stop)
        return self.shard.read_rows(start, stop)

    def strings(self, start: int, stop: int) -> list[str]:
        """Return the text of tokens of the shard."""
        arrays = self.shard.arrays
        offsets = arrays["token_text_offsets"][start : stop + 1]
        return strings(arrays["token_text"], offsets)


class EmbeddedDocument:
    """A document with its vectors.

    Args:
        pieces: One, or several for a long document that spans shards.
    """

    def __init__(self, pieces: list[Piece]) -> None:
        self.pieces = pieces

    @property
    def id(self) -> str:
        """The id of the input, or number of the input and position in it: `0:1234`."""
        piece = self.pieces[0]
        offsets = piece.shard.arrays["document_id_offsets"]
        ids = piece.shard.arrays["document_ids"]
        return strings(ids, offsets[piece.document : piece.document + 2])[0]

    @property
    def n_tokens(self) -> int:
        """Number of tokens."""
        return sum(last - first for first, last in (p.tokens for p in self.pieces))

    @property
    def tokens(self) -> list[str]:
        """Text of the tokens, where tokens have vectors."""
        return [text for piece in self.pieces for text in piece.strings(*piece.tokens)]

    @property
    def offsets(self) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """For each piece its position in the input, and where its tokens start and end
        in it, in characters."""
        found = []
        for piece in self.pieces:
            arrays, (first, last) = piece.shard.arrays, piece.tokens
            position = int(arrays["document_positions"][piece.document])
            starts, ends = (arrays[f"token_{name}"] for name in ("starts", "ends"))
            found.append((position, starts[first:last], ends[first:last]))
        return found

    @property
    def vectors(self) -> np.ndarray:
        """The row of each token or sentence, or the vector of the document, (..., D);
        not a copy, where it lies in one shard and is not int8."""
        found = [piece.vectors(*piece.rows) for piece in self.pieces]
        if self.pieces[0].pool != "doc":
            return found[0] if len(found) == 1 else np.concatenate(found)
        if len(found) == 1:
            return found[0][0]
        weights = [last - first for first, last in (p.tokens for p in self.pieces)]
        total = sum(w * rows[0].astype("f8") for w, rows in zip(weights, found))
        return np.asarray(total / max(1, sum(weights)), dtype=np.float32)

    @property
    def sentences(self) -> Iterator[EmbeddedSentence]:
        """The sentences, where tokens or sentences have vectors."""
        for piece in self.pieces:
            for number in range(*piece.sentences):
                if piece.pool == "sentence":
                    yield EmbeddedSentence([], piece.vectors(number, number + 1)[0])
                    continue
                offsets = piece.shard.arrays["sentence_offsets"]
                start, stop = int(offsets[number]), int(offsets[number + 1])
                tokens = piece.strings(start, stop)
                yield EmbeddedSentence(tokens, piece.vectors(start, stop))


class Corpus:
    """The documents of a folder in the order of the inputs, as far as they are there.

    Args:
        output: The folder.
    """

    def __init__(self, output: str | Path) -> None:
        self.output = Path(output)
        self.plan: Plan = read_plan(self.output)
        suffix = self.plan.format.suffix
        names = names_of_shards(self.output)
        self._names = sorted(name for name in names if name.endswith(suffix))
        self._shard = lru_cache(OPEN_SHARDS)(self._open)
        headers = [self._shard(number).header for number in range(len(self._names))]
        self._counts = [header["counts"]["documents"] for header in headers]
        self._joined = [
            header["continues"] and number > 0 and self._follow(number)
            for number, header in enumerate(headers)
        ]
        begun = [count - joined for count, joined in zip(self._counts, self._joined)]
        self._first = [0, *accumulate(begun)]
        self.n_tokens = sum(header["counts"]["tokens"] for header in headers)

    def _open(self, number: int) -> Shard:
        return self.plan.format.read(self.output / SHARDS / self._names[number])

    def _follow(self, number: int) -> bool:
        """Return whether the shard before is the one before in the plan."""
        before, name = (self._names[n].split(".")[0] for n in (number - 1, number))
        return int(name.replace("-", "")) == int(before.replace("-", "")) + 1

    def __len__(self) -> int:
        """Number of documents."""
        return self._first[-1]

    def __getitem__(self, key: int | str) -> EmbeddedDocument:
        """Return a document by number or id. Raises IndexError, KeyError [EL213]."""
        if isinstance(key, str):
            if key not in self._ids:
                raise KeyError(Errors.EL213.format(path=self.output, key=key))
            key = self._ids[key]
        number = key + len(self) if key < 0 else key
        if not 0 <= number < len(self):
            raise IndexError(key)
        shard = bisect_right(self._first, number) - 1
        document = number - self._first[shard] + self._joined[shard]
        pool = self.plan.kept.pool
        pieces = [Piece(self._shard(shard), document, pool)]
        while document == self._counts[shard] - 1 and self._is_joined(shard + 1):
            shard, document = shard + 1, 0
            pieces.append(Piece(self._shard(shard), 0, pool))
        return EmbeddedDocument(pieces)

    def _is_joined(self, shard: int) -> bool:
        return shard < len(self._joined) and self._joined[shard]

    def __iter__(self) -> Iterator[EmbeddedDocument]:
        return (self[number] for number in range(len(self)))

    def sentences(self) -> Iterator[EmbeddedSentence]:
        """Yield all sentences."""
        for document in self:
            yield from document.sentences

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {document.id: number for number, document in enumerate(self)}

    def set_tensor(self, doc: Doc, key: int | str) -> None:
        """Set `doc.tensor` to the vectors of a document, with zeros for white space.

        Args:
            doc: A Doc with the same tokens.
            key: Number or id of the document.

        Raises:
            ValueError: [EL216] if the tokens differ.
        """
        document = self[key]
        words = [token.i for token in doc if not token.is_space]
        if document.tokens != [doc[i].text[:MAX_TOKEN] for i in words]:
            raise ValueError(Errors.EL216.format(key=key))
        vectors = np.asarray(document.vectors, dtype=np.float32)
        tensor = np.zeros((len(doc), *vectors.shape[1:]), dtype=np.float32)
        tensor[words] = vectors
        doc.tensor = tensor

    def torch_dataset(self) -> "Dataset[Any]":
        """Return a Dataset of the documents' vectors, as tensors of their own."""
        return _Vectors(self)


class _Vectors(Dataset[Any]):
    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus

    def __len__(self) -> int:
        return len(self.corpus)

    def __getitem__(self, number: int) -> Any:
        import torch

        return torch.from_numpy(np.array(self.corpus[number].vectors))

    def __reduce__(self) -> Any:
        """Let a worker of a DataLoader open the files itself."""
        return _reopen, (str(self.corpus.output),)


def _reopen(output: str) -> _Vectors:
    return _Vectors(Corpus(output))
