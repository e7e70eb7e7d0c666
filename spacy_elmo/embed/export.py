"""Export of finished shards to another format."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from ..atomic_files import write_files
from ..errors import Errors
from .folder import SHARDS, names_of_shards
from .plan import Plan, read_plan
from .sinks import Shard, find_sink


def export(
    output: Path,
    target: Path,
    sink: str,
    watch: Callable[[], object] = lambda: None,
) -> int:
    """Write the shards of a folder in another format.

    Args:
        output: The folder.
        target: A file, where the format can join shards in one and its name ends as
            such files do; otherwise a folder for one file per shard.
        sink: Registered name of the format.
        watch: Called after each shard.

    Returns:
        The number of shards.

    Raises:
        ValueError: [EL207] if the format can't hold the vectors, [EL208] if a shard is
            damaged, [EL217] if shards are missing.
        ImportError: [EL211] if a package is missing.
        OSError: [EL013] if a file can't be written; it is whole or not there.
    """
    plan, to = read_plan(output), find_sink(sink)
    left = plan.jobs_left(output)
    if left:
        raise ValueError(Errors.EL217.format(path=output, left=len(left)))
    names = sorted(names_of_shards(output))
    join = getattr(to, "join", None)
    shards = _shards(plan, output, names, watch)
    if join is not None and target.suffix == to.suffix:
        to.check("float32", plan.kept.pool)
        write_files(target.parent, {target.name: partial(join, shards)})
        return len(names)
    to.check(plan.kept.dtype, plan.kept.pool)
    for name, shard in zip(names, shards):
        new = Path(name).with_suffix(to.suffix).name
        write_files(target, {new: partial(to.write, shard)})
    return len(names)


def _shards(
    plan: Plan, output: Path, names: list[str], watch: Callable[[], object]
) -> Iterator[Shard]:
    for name in names:
        yield plan.format.read(output / SHARDS / name)
        watch()
