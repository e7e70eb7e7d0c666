"""Export of finished shards to another format."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ..errors import Errors
from ..files import parsing, write_files
from .folder import SHARDS, names_of_shards
from .plan import read_plan
from .shard import Shard
from .sinks import find_sink


def export(
    output: str | Path, target: str | Path, sink: str, *, force: bool = False
) -> int:
    """Write the shards of a folder in another format. Return their number.

    Args:
        output: The folder.
        target: A file, where the format can join shards in one and its name ends as
            such files do; otherwise a folder for one file per shard.
        sink: Registered name of the format.
        force: Whether to replace what is there. In a folder that is all files that are
            named as shards of the format are.

    Raises:
        ValueError: [EL207] if the format can't hold the vectors, [EL208] if a shard is
            damaged, [EL217] if shards are missing, [EL130, EL223] if the file, or such
            files in the folder, are there.
        ImportError: [EL211] if a package is missing.
        OSError: [EL013] if a file can't be written; it is whole or not there.
    """
    output, target = Path(output), Path(target)
    plan, to = read_plan(output), find_sink(sink)
    left = plan.jobs_left(output)
    if left:
        raise Errors.EL217(path=output, left=len(left))
    names = sorted(names_of_shards(output))

    def shards() -> Iterator[Shard]:
        for path in (output / SHARDS / name for name in names):
            shard = plan.format.read(path)
            with parsing(Errors.EL208, path):  # or a new checksum would say it is right
                shard.check_arrays()
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
