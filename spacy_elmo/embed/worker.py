"""A worker: it makes shards of the jobs of a plan."""

import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import Errors
from ..files import publish
from ..machine import default_settings
from ..text import Content, Reader, Sentence, Source, open_source
from .folder import SHARDS, Workspace
from .keep import DTYPES, Pooler, pack, unpack
from .model import Encoder, processor
from .plan import Plan, Range
from .shard import ROWS_AT_ONCE, ShardWriter

# Tokens that are encoded together, and the number of their (first) row.
Unit = tuple[int, list[str]]
PIECE = 1 << 14  # numbers in a piece of a column


class Columns:
    """Collects the text of a shard, and the places where its parts begin. A document
    without an id gets one: number of the input (source) and position in it."""

    def __init__(self, pool: str, source: int) -> None:
        self.pool, self.source, self.continues = pool, source, False
        self.counts = {"documents": 0, "sentences": 0, "tokens": 0}
        self._document_offsets, self._positions = _Numbers("q"), _Numbers("q")
        self._sentence_offsets = _Numbers("q")
        self._ids, self._tokens = _Texts(), _Texts()
        self._starts, self._ends = _Numbers("i"), _Numbers("i")

    def add(self, document: Content) -> list[Unit]:
        """Add a document, or a piece of one. Return the sentences to encode."""
        counts = self.counts
        if document.begins or not counts["documents"]:
            self.continues |= not document.begins
            self._ids.add([document.id or f"{self.source}:{document.position}"])
            self._positions.extend([document.position])
            self._document_offsets.extend([counts["tokens"]])
            counts["documents"] += 1
        number, units = counts["documents"] - 1, []
        for tokens, starts, ends in document.sentences:
            rows = {"token": counts["tokens"], "sentence": counts["sentences"]}
            units.append((rows.get(self.pool, number), tokens))
            if self.pool == "token":
                self._tokens.add(tokens)
                self._starts.extend(starts)
                self._ends.extend(ends)
            self._sentence_offsets.extend([counts["tokens"]])
            counts["tokens"] += len(tokens)
            counts["sentences"] += 1
        return units or ([(number, [])] if self.pool == "doc" else [])

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of the shard by name. This can be called once."""
        n_tokens = self.counts["tokens"]
        found = {
            "document_offsets": np.append(self._document_offsets.take(), n_tokens),
            "document_positions": self._positions.take(),
        }
        if self.pool != "doc":
            offsets = np.append(self._sentence_offsets.take(), n_tokens)
            found["sentence_offsets"] = offsets
        found |= self._ids.arrays("document_ids")
        if self.pool == "token":
            found |= self._tokens.arrays("token_text")
            found["token_starts"] = self._starts.take()
            found["token_ends"] = self._ends.take()
        return found


class _Numbers:
    """Collects numbers in pieces. One array that grew to megabytes would be moved again
    and again, and leave gaps in the memory of the batches."""

    def __init__(self, code: str) -> None:
        self._pieces = [array(code)]

    def extend(self, values: list[int] | bytes) -> None:
        if len(self._pieces[-1]) >= PIECE:
            self._pieces.append(array(self._pieces[-1].typecode))
        add = self._pieces[-1]
        add.frombytes(values) if isinstance(values, bytes) else add.fromlist(values)

    def take(self) -> np.ndarray:
        """Return all numbers, and forget them."""
        pieces, self._pieces = self._pieces, [array(self._pieces[-1].typecode)]
        return np.concatenate(pieces)


class _Texts:
    def __init__(self) -> None:
        self._data, self._offsets, self._size = _Numbers("B"), _Numbers("q"), 0
        self._offsets.extend([0])

    def add(self, texts: Iterable[str]) -> None:
        encoded = [text.encode("utf-8", "replace") for text in texts]
        _, *ends = accumulate(map(len, encoded), initial=self._size)
        self._offsets.extend(ends)
        self._data.extend(b"".join(encoded))
        self._size = ends[-1] if ends else self._size

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        return {f"{name}_offsets": self._offsets.take(), name: self._data.take()}


def read_units(
    plan: Plan, reader: Reader, source: Source, shard: Range, columns: Columns
) -> Iterator[Unit]:
    """Yield the sentences of a shard, and collect everything else in `columns`."""
    window = plan.reading.window
    for document in reader.documents(source, shard.start, shard.end):
        windows = [w for s in document.sentences for w in _windows(s, window)]
        yield from columns.add(document._replace(sentences=windows))


def _windows(sentence: Sentence, window: int) -> Iterator[Sentence]:
    """Cut a sentence into pieces of nearly equal length, as spacy-elmo.Windows.v1."""
    n_tokens = len(sentence.tokens)
    if n_tokens <= window:
        yield sentence
        return
    for piece in np.array_split(np.arange(n_tokens), -(-n_tokens // window)):
        rows = slice(piece[0], piece[-1] + 1)
        yield Sentence(
            sentence.tokens[rows], sentence.starts[rows], sentence.ends[rows]
        )


def make_rows(
    units: Iterable[Unit],
    plan: Plan,
    encoder: Encoder,
    tell: Callable[[int], object] = lambda n_tokens: None,
) -> Iterator[tuple[int, np.ndarray]]:
    """Encode sentences, and yield float32 rows in order, with the number of the first.

    Args:
        units: Sentences, with the numbers of their rows.
        plan: The plan.
        encoder: Its encoder.
        tell: A function that is called with the number of tokens of each block.
    """
    pooler = Pooler(plan.kept.pool)
    for block in _blocks(units, plan.computing.block_tokens):
        for (row, _), kept in zip(block, encoder([tokens for _, tokens in block])):
            yield from pooler.add(row, kept)
        del kept  # a view of the block's memory
        tell(sum(len(tokens) for _, tokens in block))
    yield from pooler.finish()


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


def _gathered(found: Iterable[tuple[int, np.ndarray]]) -> Iterator[np.ndarray]:
    """Yield rows, ROWS_AT_ONCE at a time, in one array that is reused."""
    gathered, n_rows = np.empty(0), 0
    for _, rows in found:
        if not len(gathered):
            gathered = np.empty((ROWS_AT_ONCE, *rows.shape[1:]), dtype=rows.dtype)
        left = rows
        while len(left):
            n_taken = min(len(left), ROWS_AT_ONCE - n_rows)
            gathered[n_rows : n_rows + n_taken] = left[:n_taken]
            n_rows, left = n_rows + n_taken, left[n_taken:]
            if n_rows == ROWS_AT_ONCE:
                yield gathered
                n_rows = 0
        del rows, left  # frees the memory of a block before the next one
    if n_rows:
        yield gathered[:n_rows]


class Worker:
    """Makes the shards of a plan, one after the other.

    Args:
        plan: The plan.
        output: Its folder.
        encoder: Its encoder.
        workspace: Where unfinished files are.
        watch: A function that is called after each block of sentences.
    """

    def __init__(
        self,
        plan: Plan,
        output: Path,
        encoder: Encoder,
        workspace: Workspace,
        watch: Callable[[], object] = lambda: None,
    ) -> None:
        self.plan, self.output, self.encoder = plan, output, encoder
        self.reader = plan.reader()
        self.processor = processor(plan.computing.device)
        self._workspace, self._watch = workspace, watch
        self._started = time.monotonic()
        self._n_bytes = self._n_tokens = 0

    @default_settings()
    def make(self, number: int) -> int:
        """Make the missing shards of a job. Return the number of tokens.

        Raises:
            ValueError: [EL204] if the input was changed, [EL205] if it is damaged,
                [EL210] if vectors are not finite.
            OSError: [EL013] if a shard can't be written, [EL030] if the input can't be
                read.
        """
        source, before = None, self._n_tokens
        try:
            for shard in self.plan.ranges(number):
                described = self.plan.inputs[shard.source]
                if (self.output / SHARDS / shard.name).exists():
                    is_last = self.plan.is_last(shard, self.output)
                else:
                    source = source or open_source(described, self.plan.piece)
                    is_last = self._make(shard, source)["last"]
                if is_last:
                    break
        except OSError as error:
            if error.errno is None:  # it has a message that says all
                raise
            raise Errors.EL013(path=self.output, error=error) from error
        finally:
            if source is not None:
                self._n_bytes += source.stream.raw_position
                source.close()
        return self._n_tokens - before

    def _tell(self, source: Source, n_tokens: int) -> None:
        self._n_tokens += n_tokens
        self._workspace.tell(
            job_bytes=source.packed_size,
            bytes=self._n_bytes + source.packed_size,
            tokens=self._n_tokens,
            seconds=time.monotonic() - self._started,
        )
        self._watch()

    def _make(self, shard: Range, source: Source) -> dict[str, Any]:
        """Make one shard. Return its header."""
        plan, aside = self.plan, self._workspace.folder / f"{shard.name}.new"
        header = self._write(shard, source, aside)
        plan.inputs[shard.source].check_unchanged()
        publish(aside, self.output / SHARDS / shard.name)
        return header

    def _write(self, shard: Range, source: Source, path: Path) -> dict[str, Any]:
        """Write one shard to a safetensors file. Return its header."""
        plan, kept = self.plan, self.plan.kept
        columns = Columns(kept.pool, shard.source)
        error = {"squared_error": 0.0, "squared_value": 0.0, "largest": 0.0}
        scales = [np.empty((0, *kept.row_shape[:-1]), dtype=np.float32)]
        if not plan.computing.exact:
            self.encoder.start_shard()
        with ShardWriter(path, np.dtype(DTYPES[kept.dtype]), kept.row_shape) as writer:
            units = read_units(plan, self.reader, source, shard, columns)
            found = make_rows(units, plan, self.encoder, partial(self._tell, source))
            for rows in _gathered(found):
                packed, some_scales = pack(rows, kept.dtype)
                writer.add(packed)
                if kept.dtype != "float32":
                    add_rounding_error(error, rows, unpack(packed, some_scales))
                if some_scales is not None:
                    scales.append(some_scales)
            arrays = columns.arrays()
            if kept.dtype == "int8":
                arrays["scales"] = np.concatenate(scales)
            header = {
                "plan": plan.hash,
                "shard": shard.name,
                "processor": self.processor,
                "pool": kept.pool,
                "counts": {**columns.counts, "rows": writer.n_rows},
                "input": source.take_checksum(),
                "continues": columns.continues,
                "last": source.at_end if shard.is_last is None else shard.is_last,
                "error": error,
            }
            writer.finish(header, arrays)
        return header


def add_rounding_error(
    error: dict[str, float], rows: np.ndarray, read_back: np.ndarray
) -> None:
    """Add the difference between rows and the same rows as they will be read."""
    difference = rows - read_back
    error["squared_error"] += float(np.vdot(difference, difference))
    error["squared_value"] += float(np.vdot(rows, rows))
    largest = max(difference.max(), -difference.min())
    error["largest"] = max(error["largest"], float(largest))
