"""Parquet with one row for each vector, for data frames and SQL (extra `arrow`).

Columns: document (id), position (in the input), sentence (number in the shard) and
vector, a list; for tokens also token, start and end; scale where vectors are int8. The
footer holds the header, and ids, positions and offsets, compressed.
"""

import json
import zlib
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import Errors
from ...files import bytes_of, parsing, reading
from ...registry import registry
from ..shard import Shard

ROWS = 8192  # of a row group
# Bytes. Beyond 100 MB no reader takes a footer, in which Arrow repeats this, longer.
MAX_FOOTER = 32 << 20


@registry.sinks("parquet")
class Parquet:
    """One row for each vector."""

    suffix = ".parquet"

    def check(self, dtype: str, pool: str) -> None:
        """Accept everything. Raises ImportError [EL211] if pyarrow is missing."""
        try:
            import pyarrow  # noqa: F401
        except ImportError as error:
            raise Errors.EL211(name="pyarrow", extra="arrow", error=error) from error

    def write(self, shard: Shard, path: Path) -> None:
        """Write a shard to a new file. Raises ValueError [EL207] if it has too many
        documents for one."""
        import pyarrow.parquet as pq

        columns = _columns(shard)
        in_footer = {
            name: b64encode(zlib.compress(bytes_of(array))).decode()
            for name, array in shard.arrays.items()
            if not name.startswith("token_") and name != "scales"
        }
        text = json.dumps({"header": dict(shard.header), **in_footer})
        if len(text) > MAX_FOOTER:
            found = f"what {len(columns['position']):,} rows of Parquet are made of"
            known = "a smaller one, or another format"
            raise Errors.EL207(name="shard_mb", found=found, known=known)
        schema = _table(columns, shard, 0, 0).schema.with_metadata({"spacy_elmo": text})
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for start in range(0, shard.n_rows, ROWS):
                table = _table(columns, shard, start, min(start + ROWS, shard.n_rows))
                writer.write_table(table.cast(schema), row_group_size=ROWS)

    def read(self, path: Path) -> Shard:
        """Open a file. Raises ValueError [EL208]."""
        import pyarrow.parquet as pq

        with reading(path, Errors.EL208):
            file = pq.ParquetFile(path)
            footer = json.loads(file.schema_arrow.metadata[b"spacy_elmo"])
            header = footer.pop("header")
            said = header["arrays"]
            arrays = {n: _array(footer[n], said[n]) for n in footer}
            if "scales" in said:
                scales = _flat(file.read(["scale"]).column("scale"))
                arrays["scales"] = scales.reshape(said["scales"]["shape"])
            if "token_text" in said:
                arrays |= _tokens(file.read(["token", "start", "end"]))
            shape = said["vectors"]["shape"][1:]

        def read_rows(start: int, stop: int) -> np.ndarray:
            groups = range(start // ROWS, min(-(-stop // ROWS), file.num_row_groups))
            with parsing(Errors.EL208, path):
                column = file.read_row_groups([*groups], ["vector"]).column("vector")
            skip = start - ROWS * groups.start
            return _flat(column).reshape(-1, *shape)[skip : skip + stop - start]

        return Shard(header, arrays, read_rows)


def _array(packed: str | list[int], said: dict[str, Any]) -> np.ndarray:
    """Return an array of the footer. Raises ValueError if it is not as long as the
    header says. Earlier files have lists of numbers."""
    if isinstance(packed, list):
        return np.array(packed, dtype=said["dtype"])
    n_bytes = np.dtype(said["dtype"]).itemsize * int(np.prod(said["shape"]))
    # One byte more than there should be: never as many as a file may claim.
    data = zlib.decompressobj().decompress(b64decode(packed), n_bytes + 1)
    if len(data) != n_bytes:
        raise ValueError("an array in its footer has another size than its header says")
    return np.frombuffer(data, dtype=said["dtype"])


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
        documents = np.repeat(
            np.arange(n_documents),
            np.diff(np.searchsorted(starts, arrays["document_offsets"])),
        )
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


def _flat(column: Any) -> np.ndarray:
    flat = column.combine_chunks().flatten()
    return np.asarray(flat.to_numpy(zero_copy_only=False))


def _tokens(table: Any) -> dict[str, np.ndarray]:
    texts = [text.encode("utf-8") for text in table.column("token").to_pylist()]
    lengths = np.array([0, *map(len, texts)], dtype=np.int64)
    return {
        "token_text": np.frombuffer(b"".join(texts), dtype=np.uint8),
        "token_text_offsets": np.cumsum(lengths),
        "token_starts": table.column("start").to_numpy(),
        "token_ends": table.column("end").to_numpy(),
    }
