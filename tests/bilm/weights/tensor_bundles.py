"""Checkpoints of TensorFlow, written here from the descriptions of its formats."""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

MAGIC = 0xDB4775248B80FB57
DTYPES = {"float32": 1, "float64": 2, "int32": 3, "int64": 9, "float16": 19}


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def masked(data: bytes) -> int:
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def field(number: int, value: int | bytes) -> bytes:
    """A field of a protocol buffer: whole numbers and what has a length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def entry(dtype: int, shape: tuple[int, ...], shard: int, offset: int, data: bytes):
    axes = b"".join(field(2, field(1, n)) for n in shape)
    parts = [field(1, dtype), field(2, axes)]
    parts += [field(n, v) for n, v in ((3, shard), (4, offset), (5, len(data))) if v]
    return b"".join(parts) + varint(6 << 3 | 5) + struct.pack("<I", masked(data))


def block(pairs: list[tuple[bytes, bytes]], restart: int = 16) -> bytes:
    """A block of LevelDB's table, keys shortened by what they share."""
    out, restarts, last = bytearray(), [], b""
    for i, (key, value) in enumerate(pairs):
        shared = 0
        if i % restart == 0:
            restarts.append(len(out))
        else:
            while shared < min(len(key), len(last)) and key[shared] == last[shared]:
                shared += 1
        rest = key[shared:]
        out += varint(shared) + varint(len(rest)) + varint(len(value)) + rest + value
        last = key
    numbers = [*(restarts or [0]), len(restarts or [0])]
    return bytes(out) + struct.pack(f"<{len(numbers)}I", *numbers)


def table(pairs: list[tuple[bytes, bytes]], *, snappy: bool, per_block: int) -> bytes:
    out = bytearray()

    def add(content: bytes, packed: bool) -> bytes:
        if packed:
            import pyarrow

            content = pyarrow.compress(content, codec="snappy", asbytes=True)
        handle = varint(len(out)) + varint(len(content))
        with_kind = content + bytes([packed])
        out.extend(with_kind + struct.pack("<I", masked(with_kind)))
        return handle

    handles = []
    for first in range(0, len(pairs), per_block):
        some = pairs[first : first + per_block]
        handles.append((some[-1][0], add(block(some), snappy)))
    meta = add(block([]), False)
    index = add(block(handles, 1), snappy)
    footer = (meta + index).ljust(40, b"\0") + struct.pack("<Q", MAGIC)
    return bytes(out) + footer


def write_bundle(
    prefix: Path,
    arrays: Mapping[str, np.ndarray],
    *,
    n_shards: int = 1,
    snappy: bool = False,
    per_block: int = 20,
    change: Mapping[str, Any] | None = None,
) -> None:
    """Write a checkpoint. change: entries in the place of some arrays' own."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    shards = [bytearray() for _ in range(n_shards)]
    pairs = {b"": field(1, n_shards) + field(3, field(1, 1))}
    for i, (name, array) in enumerate(sorted(arrays.items())):
        shard, data = i % n_shards, np.ascontiguousarray(array).tobytes()
        dtype = DTYPES[str(array.dtype)]
        place = len(shards[shard])
        pairs[name.encode()] = entry(dtype, array.shape, shard, place, data)
        shards[shard] += data
    pairs |= {name.encode(): value for name, value in (change or {}).items()}
    content = table(sorted(pairs.items()), snappy=snappy, per_block=per_block)
    prefix.with_name(prefix.name + ".index").write_bytes(content)
    for i, shard in enumerate(shards):
        name = f"{prefix.name}.data-{i:05}-of-{n_shards:05}"
        prefix.with_name(name).write_bytes(shard)
