"""Exports: finished shards in other formats, the sinks, by registered name."""

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from typing import Any, Protocol

import h5py
import numpy as np

from ..errors import Errors
from ..files import create_hdf5, named_path, write_files
from ..registry import registry
from .folder import SHARDS, names_of_shards
from .model import choose
from .plan import read_plan
from .shard import ROWS_AT_ONCE, SUFFIX, Shard, ShardWriter

ROWS_OF_GROUP = 8192  # of Parquet


class Sink(Protocol):
    """A format of exports, registered with `@registry.sinks`.

    A sink may also have `join(shards, path)`, which writes several shards to one file
    as float32.

    Attributes:
        suffix: Ending of its files.
    """

    suffix: str

    def check(self, dtype: str, pool: str) -> None:
        """Check that it can hold such rows.

        Raises:
            ValueError: [EL207] if it can't.
            ImportError: [EL211] if a package is missing.
        """

    def write(self, shard: Shard, path: Path) -> None:
        """Write a shard to a new file."""


def find_sink(name: str) -> Sink:
    """Return the sink of a registered name. Raises ValueError [EL207]."""
    sinks = registry.sinks.get_all()
    choose("format", name, sorted(sinks))
    sink: Sink = sinks[name]()
    return sink


def export(
    output: str | Path, target: str | Path, sink: str, *, force: bool = False
) -> int:
    """Write the shards of a folder in another format. Return the number of shards.

    Args:
        output: The folder of the plan.
        target: A folder, which gets one file for each shard. Or one file for all
            shards, if the format can join them and the name has the format's ending.
        sink: Registered name of the format.
        force: Whether to replace the file, or the files of the format in the folder
            that have the names of shards.

    Raises:
        ValueError: [EL207] The format can't hold the vectors. [EL208] A shard is
            damaged. [EL217] Shards are missing. [EL130, EL223] The file exists, or such
            files in the folder.
        ImportError: [EL211] A package is missing.
        OSError: [EL013] A file can't be written. No part of it is left.
    """
    output, target = named_path(output), named_path(target)
    plan, to = read_plan(output), find_sink(sink)
    left = plan.jobs_left(output)
    if left:
        raise Errors.EL217(path=output, left=len(left))
    names = sorted(names_of_shards(output))

    def shards() -> Iterator[Shard]:
        for path in (output / SHARDS / name for name in names):
            shard = plan.read(path)
            shard.check_arrays(path)  # or a new checksum would say it is right
            yield shard

    join = getattr(to, "join", None)
    if join is not None and target.suffix == to.suffix:
        to.check("float32", plan.kept.pool)
        if target.exists() and not force:
            raise Errors.EL130(path=target)
        write_files(target.parent, {target.name: partial(join, shards())})
        return len(names)
    to.check(plan.kept.dtype, plan.kept.pool)
    if not force and any(target.glob(f"*{to.suffix}")):
        raise Errors.EL223(path=target, suffix=to.suffix)
    new = [name.partition(".")[0] + to.suffix for name in names]
    for name, shard in zip(new, shards()):
        write_files(target, {name: partial(to.write, shard)})
    for name in names_of_shards(target, "") - set(new):  # of another export
        if name.endswith(to.suffix):
            (target / name).unlink()
    return len(names)


@registry.sinks("safetensors")
class Safetensors:
    """Vectors and everything else in one file: for shards that version 0.2 stored in
    another format."""

    suffix = SUFFIX

    def check(self, dtype: str, pool: str) -> None:
        """Accept everything."""

    def write(self, shard: Shard, path: Path) -> None:
        """Write a shard to a new file."""
        said = shard.header["arrays"]["vectors"]
        dtype, row_shape = np.dtype(said["dtype"]), tuple(said["shape"][1:])
        with ShardWriter(path, dtype, row_shape) as writer:
            for start in range(0, shard.n_rows, ROWS_AT_ONCE):
                stop = min(start + ROWS_AT_ONCE, shard.n_rows)
                writer.add(shard.read_rows(start, stop))
            writer.finish(shard.header, shard.arrays)


@registry.sinks("hdf5")
class Hdf5:
    """HDF5 as AllenNLP's command `elmo` writes it, for code that reads that: rows of
    tokens that are not int8.

    Each sentence is a dataset named by its number: (T, D), or (layers, T, D) where
    several layers are kept. The dataset `sentence_to_index` holds a JSON object from
    sentences to these numbers. The header of a shard is an attribute of its file.
    """

    suffix = ".hdf5"

    def check(self, dtype: str, pool: str) -> None:
        """Accept tokens in a floating-point type. Raises ValueError [EL207]."""
        choose("dtype", dtype, ["float32", "float16"])
        choose("pool", pool, ["token"])

    def write(self, shard: Shard, path: Path) -> None:
        """Write a shard to a new file. Raises OSError."""
        with create_hdf5(path) as file:
            _write_sentences(file, [(shard, shard.read_rows)])
            file.attrs["header"] = json.dumps(shard.header)

    def join(self, shards: Iterable[Shard], path: Path) -> None:
        """Write the sentences of several shards to one new file, as float32. Raises
        OSError."""
        with create_hdf5(path) as file:
            _write_sentences(file, ((shard, shard.vectors) for shard in shards))


def _write_sentences(
    file: Any, shards: Iterable[tuple[Shard, Callable[[int, int], np.ndarray]]]
) -> None:
    """Write the sentences of shards, each with a function that reads its rows."""
    index, keys = {}, map(str, count())
    for shard, read in shards:
        for start, stop in pairwise(shard.arrays["sentence_offsets"].tolist()):
            key, rows = next(keys), np.asarray(read(start, stop))
            index[" ".join(shard.texts("token_text", start, stop))] = key
            rows = rows.swapaxes(0, 1) if rows.ndim > 2 else rows
            file.create_dataset(key, data=rows)
    text = h5py.special_dtype(vlen=str)
    file.create_dataset("sentence_to_index", (1,), dtype=text)[0] = json.dumps(index)


@registry.sinks("parquet")
class Parquet:
    """Parquet with one row for each vector, for data frames and SQL (extra `arrow`).

    Columns: document (id), position (in the input), sentence (number in the shard) and
    vector, a list; for tokens also token, start and end; scale where vectors are int8.
    The metadata have the header of the shard.
    """

    suffix = ".parquet"

    def check(self, dtype: str, pool: str) -> None:
        """Accept everything. Raises ImportError [EL211] if pyarrow is missing."""
        try:
            import pyarrow  # noqa: F401
        except ImportError as error:
            raise Errors.EL211(name="pyarrow", extra="arrow", error=error) from error

    def write(self, shard: Shard, path: Path) -> None:
        """Write a shard to a new file."""
        import pyarrow.parquet as pq

        columns = _columns(shard)
        text = json.dumps(dict(shard.header))
        schema = _table(columns, shard, 0, 0).schema.with_metadata({"spacy_elmo": text})
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for start in range(0, shard.n_rows, ROWS_OF_GROUP):
                table = _table(columns, shard, start, start + ROWS_OF_GROUP)
                writer.write_table(table.cast(schema), row_group_size=ROWS_OF_GROUP)


def _columns(shard: Shard) -> dict[str, Any]:
    """Return all columns but vectors and scales."""
    import pyarrow as pa

    arrays, pool = shard.arrays, shard.header["pool"]
    n_documents = len(arrays["document_positions"])
    starts = np.arange(shard.n_rows)  # the first token of each row
    documents, columns = starts, {}
    if pool != "doc":
        sentences = arrays["sentence_offsets"]
        starts = starts if pool == "token" else sentences[:-1]
        columns["sentence"] = np.searchsorted(sentences, starts, "right") - 1
        documents = np.searchsorted(arrays["document_offsets"], starts, "right") - 1
    if pool == "token":
        columns["token"] = pa.array(shard.texts("token_text", 0, shard.n_rows))
        columns["start"], columns["end"] = arrays["token_starts"], arrays["token_ends"]
    ids = pa.array(shard.texts("document_ids", 0, n_documents), pa.string())
    columns["position"] = arrays["document_positions"][documents]
    columns["document"] = ids.take(pa.array(documents))
    return columns


def _table(columns: dict[str, Any], shard: Shard, start: int, stop: int) -> Any:
    import pyarrow as pa

    def lists(rows: np.ndarray) -> Any:
        length = int(np.prod(rows.shape[1:]))
        return pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), length)

    found = {name: pa.array(column[start:stop]) for name, column in columns.items()}
    found["vector"] = lists(np.ascontiguousarray(shard.read_rows(start, stop)))
    if "scales" in shard.arrays:
        found["scale"] = lists(np.array(shard.arrays["scales"][start:stop]))
    return pa.table(found)
