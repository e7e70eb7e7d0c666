"""Reading a folder of vectors, finished or not: documents by number or id."""

from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from spacy.tokens import Doc
from torch.utils.data import Dataset

from ..errors import Errors
from ..files import named_path
from ..text import MAX_TOKEN
from .folder import SHARDS, names_of_shards
from .plan import Plan, read_plan
from .shard import Shard, no_vector_of_a_token

OPEN_SHARDS = 64  # most shards that a corpus keeps open


class EmbeddedSentence(NamedTuple):
    """The text of the tokens of a sentence, and their vectors (T, ..., D). A pooled
    sentence has one vector, (..., D)."""

    tokens: list[str]
    vectors: np.ndarray


class EmbeddedDocument:
    """A document with its vectors.

    Args:
        pieces: The shards of the document, each with its number there. A long document
            can be in several shards.
    """

    def __init__(self, pieces: list[tuple[Shard, int]]) -> None:
        self.pieces = pieces

    @property
    def id(self) -> str:
        """The id in the input, or else the input's number and the position, `0:12`."""
        shard, number = self.pieces[0]
        return shard.texts("document_ids", number, number + 1)[0]

    @property
    def _n_tokens(self) -> list[int]:
        places = [shard.tokens_of(number) for shard, number in self.pieces]
        return [last - first for first, last in places]

    @property
    def n_tokens(self) -> int:
        """Number of tokens."""
        return sum(self._n_tokens)

    @property
    def tokens(self) -> list[str]:
        """Text of the tokens. Raises ValueError [EL218] where they have no vectors."""
        found: list[str] = []
        for shard, number in self.pieces:
            found += shard.texts("token_text", *shard.tokens_of(number))
        return found

    @property
    def offsets(self) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """The place of each piece in the input, and where its tokens start and end in
        it, in characters. Raises ValueError [EL218] where tokens have no vectors."""
        found = []
        for shard, number in self.pieces:
            tokens = slice(*shard.tokens_of(number))
            position = int(shard.array("document_positions")[number])
            starts, ends = map(shard.array, ("token_starts", "token_ends"))
            found.append((position, starts[tokens], ends[tokens]))
        return found

    @property
    def vectors(self) -> np.ndarray:
        """The row of each token or sentence, or the vector of the document, (..., D): a
        view of the file if it lies in one shard and is not int8."""
        found = [_rows(shard, *shard.rows_of(number)) for shard, number in self.pieces]
        if self.pieces[0][0].header["pool"] != "doc":
            return found[0] if len(found) == 1 else np.concatenate(found)
        if len(found) == 1:
            return found[0][0]
        total = sum(n * rows[0].astype("f8") for n, rows in zip(self._n_tokens, found))
        return np.asarray(total / max(1, self.n_tokens), dtype=np.float32)

    @property
    def sentences(self) -> Iterator[EmbeddedSentence]:
        """The sentences. Raises ValueError [EL218] where neither they nor their tokens
        have vectors."""
        for shard, document in self.pieces:
            offsets = shard.array("sentence_offsets")
            for number in range(*shard.sentences_of(document)):
                if shard.header["pool"] == "sentence":
                    yield EmbeddedSentence([], _rows(shard, number, number + 1)[0])
                else:
                    place = int(offsets[number]), int(offsets[number + 1])
                    tokens = shard.texts("token_text", *place)
                    yield EmbeddedSentence(tokens, _rows(shard, *place))


def _rows(shard: Shard, start: int, stop: int) -> np.ndarray:
    """Return rows, as float32 if they are int8, else as a view."""
    is_int8 = "scales" in shard.arrays
    return (shard.vectors if is_int8 else shard.read_rows)(start, stop)


class Corpus:
    """The finished documents of a folder, in the order of the inputs."""

    def __init__(self, output: str | Path) -> None:
        self.output = named_path(output).absolute()  # shards are opened later
        self.plan: Plan = read_plan(self.output)
        names, suffix = names_of_shards(self.output), f".{self.plan.sink}"
        self._names = sorted(name for name in names if name.endswith(suffix))
        self._shard = lru_cache(OPEN_SHARDS)(self._open)
        headers = [self._shard(number).header for number in range(len(self._names))]
        self._counts = [header["counts"]["documents"] for header in headers]
        # Whether the first document of each shard is the last of the one before.
        self._joined = [
            header["continues"] and number > 0 and self._follow(number)
            for number, header in enumerate(headers)
        ]
        self._joined.append(False)  # no shard follows the last one
        begun = [count - joined for count, joined in zip(self._counts, self._joined)]
        self._first = [0, *accumulate(begun)]
        self.n_tokens = sum(header["counts"]["tokens"] for header in headers)

    def __reduce__(self) -> Any:
        """Pickle the path alone: a worker of a DataLoader opens the files itself."""
        return Corpus, (self.output,)

    def _open(self, number: int) -> Shard:
        return self.plan.read(self.output / SHARDS / self._names[number])

    def _follow(self, number: int) -> bool:
        """Return whether no shard is missing between this one and the one before."""
        names = (self._names[n].split(".")[0] for n in (number - 1, number))
        (*jobs, before), (*of_jobs, last) = (name.split("-") for name in names)
        return jobs == of_jobs and int(last) == int(before) + 1

    def __len__(self) -> int:
        """Number of documents."""
        return self._first[-1]

    def __getitem__(self, key: int | str) -> EmbeddedDocument:
        """Return a document by number or id. Raises IndexError, KeyError [EL213] if no
        document or several have the id."""
        if isinstance(key, str):
            numbers = self._ids.get(key, [])
            if len(numbers) != 1:
                found = {"path": self.output, "key": key, "n": len(numbers)}
                raise Errors.EL213(**found)
            (key,) = numbers
        number = key + len(self) if key < 0 else key
        if not 0 <= number < len(self):
            raise IndexError(key)
        shard = bisect_right(self._first, number) - 1
        document = number - self._first[shard] + self._joined[shard]
        pieces = [(self._shard(shard), document)]
        while document == self._counts[shard] - 1 and self._joined[shard + 1]:
            shard, document = shard + 1, 0
            pieces.append((self._shard(shard), 0))
        return EmbeddedDocument(pieces)

    def __iter__(self) -> Iterator[EmbeddedDocument]:
        return (self[number] for number in range(len(self)))

    def sentences(self) -> Iterator[EmbeddedSentence]:
        """Yield all sentences."""
        for document in self:
            yield from document.sentences

    @cached_property
    def _ids(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for number, document in enumerate(self):
            found.setdefault(document.id, []).append(number)
        return found

    def set_tensor(self, doc: Doc, key: int | str) -> None:
        """Set `doc.tensor` to the vectors of a document, with zeros for white space.

        Args:
            doc: A Doc with the same tokens.
            key: Number or id of the document.

        Raises:
            ValueError: [EL216] if the tokens differ, [EL218] if tokens do not have one
                vector each.
        """
        kept, document = self.plan.kept, self[key]
        if len(kept.row_shape) != 1:
            raise no_vector_of_a_token(kept.pool, len(kept.layers))
        words = [token.i for token in doc if not token.text.isspace()]
        if document.tokens != [doc[i].text[:MAX_TOKEN] for i in words]:
            raise Errors.EL216(key=key)
        vectors = np.asarray(document.vectors, dtype=np.float32)
        doc.tensor = np.zeros((len(doc), *vectors.shape[1:]), dtype=np.float32)
        doc.tensor[words] = vectors

    def torch_dataset(self) -> "Dataset[Any]":
        """Return a Dataset that has a tensor of vectors for each document."""
        return _Vectors(self)


class _Vectors(Dataset[Any]):
    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus

    def __len__(self) -> int:
        return len(self.corpus)

    def __getitem__(self, number: int) -> torch.Tensor:
        return torch.from_numpy(np.array(self.corpus[number].vectors))
