"""A worker: it makes shards of the jobs of a plan."""

import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from ..files import publish
from ..machine import default_settings
from ..text import Content, Reader, Sentence, Source
from .folder import SHARDS, Workspace, writing
from .model import DTYPES, Encoder, Unit, pack, processor, unpack
from .plan import Plan, Range
from .shard import COLUMNS, LEFT_OUT, ROWS_AT_ONCE, Rounding, ShardWriter


class ShardText:
    """All of a shard but its vectors, from one reading of its text.

    Args:
        plan: The plan.
        shard: The range of the input that the shard is made of.
        reader: The reader of the plan.
        source: The open input.
    """

    def __init__(
        self, plan: Plan, shard: Range, reader: Reader, source: Source
    ) -> None:
        self._plan, self._shard = plan, shard
        self._reader, self._source = reader, source
        self._counts = {"documents": 0, "sentences": 0, "tokens": 0}
        self._columns = {name: array(code) for name, code in COLUMNS.items()}
        for name in ("document_ids", "token_text"):
            self._columns[f"{name}_offsets"].append(0)
        self._continues = False

    def units(self) -> Iterator[Unit]:
        """Read the text, and yield its sentences, cut into windows. This can be called
        once."""
        window = self._plan.reading.window
        start, end = self._shard.start, self._shard.end
        for document in self._reader.documents(self._source, start, end):
            windows = [w for s in document.sentences for w in _windows(s, window)]
            yield from self._add(document, windows)

    def _add(self, document: Content, sentences: list[Sentence]) -> list[Unit]:
        """Add a document, or a piece of one. Return the sentences to encode. A document
        without an id gets one: number of the input and position in it."""
        pool, counts, columns = self._plan.kept.pool, self._counts, self._columns
        if document.begins or not counts["documents"]:
            self._continues |= not document.begins
            name = document.id or f"{self._shard.source}:{document.position}"
            self._add_texts("document_ids", [name])
            columns["document_positions"].append(document.position)
            columns["document_offsets"].append(counts["tokens"])
            counts["documents"] += 1
        number, units = counts["documents"] - 1, []
        for tokens, starts, ends in sentences:
            rows = {"token": counts["tokens"], "sentence": counts["sentences"]}
            units.append((rows.get(pool, number), tokens))
            if pool == "token":
                self._add_texts("token_text", tokens)
                columns["token_starts"].extend(starts)
                columns["token_ends"].extend(ends)
            columns["sentence_offsets"].append(counts["tokens"])
            counts["tokens"] += len(tokens)
            counts["sentences"] += 1
        return units or ([(number, [])] if pool == "doc" else [])

    def _add_texts(self, name: str, texts: list[str]) -> None:
        encoded = [text.encode("utf-8", "replace") for text in texts]
        ends = self._columns[f"{name}_offsets"]
        ends.extend(accumulate(map(len, encoded), initial=ends.pop()))
        self._columns[name].frombytes(b"".join(encoded))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays by name, once the text is read."""
        left_out = LEFT_OUT[self._plan.kept.pool]
        found = {
            name: np.array(column)
            for name, column in self._columns.items()
            if not name.startswith(left_out)
        }
        for name in found.keys() & {"document_offsets", "sentence_offsets"}:
            found[name] = np.append(found[name], self._counts["tokens"])
        return found

    def header(self, processor: str, n_rows: int) -> dict[str, Any]:
        """Return the header of the shard, once the text is read.

        Args:
            processor: The kind of processor that computes the vectors.
            n_rows: Number of rows.
        """
        is_last = self._shard.is_last
        return {
            "plan": self._plan.hash,
            "shard": self._shard.name,
            "processor": processor,
            "pool": self._plan.kept.pool,
            "counts": {**self._counts, "rows": n_rows},
            "input": self._source.take_checksum(),
            "continues": self._continues,
            "last": self._source.at_end if is_last is None else is_last,
        }


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


def _gathered(found: Iterable[tuple[int, np.ndarray]]) -> Iterator[np.ndarray]:
    """Yield rows, ROWS_AT_ONCE at a time."""
    waiting, n_rows = list[np.ndarray](), 0
    for _, rows in found:
        waiting.append(rows)
        n_rows += len(rows)
        while n_rows >= ROWS_AT_ONCE:
            gathered = np.concatenate(waiting)
            yield gathered[:ROWS_AT_ONCE]
            waiting, n_rows = [gathered[ROWS_AT_ONCE:]], n_rows - ROWS_AT_ONCE
    if n_rows:
        yield np.concatenate(waiting)


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
        self._reader, self._processor = plan.reader(), processor(plan.computing.device)
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
        plan, before = self.plan, self._n_tokens
        with writing(self.output), closing(plan.open_input(number)) as source:
            for shard in plan.ranges_until_last(number, self.output):
                if not (self.output / SHARDS / shard.name).exists():
                    self._make(shard, source)
            self._n_bytes += source.stream.raw_position
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

    def _make(self, shard: Range, source: Source) -> None:
        """Make one shard."""
        kept = self.plan.kept
        text = ShardText(self.plan, shard, self._reader, source)
        rounding = Rounding(0.0, 0.0, 0.0)
        scales = [np.empty((0, *kept.row_shape[:-1]), dtype=np.float32)]
        temporary = self._workspace.folder / f"{shard.name}.new"
        dtype = np.dtype(DTYPES[kept.dtype])
        with ShardWriter(temporary, dtype, kept.row_shape) as writer:
            tell = partial(self._tell, source)
            for rows in _gathered(self.encoder.rows(text.units(), tell)):
                packed, some_scales = pack(rows, kept.dtype)
                writer.add(packed)
                if kept.dtype != "float32":
                    rounding.add(rows, unpack(packed, some_scales))
                if some_scales is not None:
                    scales.append(some_scales)
            arrays = text.arrays()
            if kept.dtype == "int8":
                arrays["scales"] = np.concatenate(scales)
            header = text.header(self._processor, writer.n_rows)
            writer.finish({**header, "error": asdict(rounding)}, arrays)
        source.file.check_unchanged()
        publish(temporary, self.output / SHARDS / shard.name)
