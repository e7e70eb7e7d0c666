"""Tables for data frames and SQL."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import Errors
from ...registry import registry
from ..shard import Shard

ROWS_OF_GROUP = 8192


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
