"""Sinks: formats that finished shards are exported to, by registered name. A file of
this folder has one."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Protocol

from ...errors import Errors
from ...files import named_path, write_files
from ...registry import registry
from ..folder import SHARDS, names_of_shards
from ..model import check_setting
from ..plan import read_plan
from ..shard import Shard
from . import hdf5, parquet, safetensors  # noqa: F401  (they register)


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
    check_setting("format", name, sorted(sinks))
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
