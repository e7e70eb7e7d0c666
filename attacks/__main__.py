"""`python -m attacks NAME --minutes N --seed S`: attack, and say what was found."""

import argparse
import importlib
import os
import sys
import warnings
from pathlib import Path

from .report import Run

NAMES = ("files", "guided", "operations", "text", "threads", "kills", "disks", "soak")


def main(args: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m attacks", description=__doc__)
    parser.add_argument("name", choices=[*NAMES, "all"])
    parser.add_argument("--minutes", type=float, default=2.0, help="at most, for each")
    parser.add_argument("--seed", type=int, default=0, help="of all random choices")
    parser.add_argument("--count", type=int, help="cases at most; none: all that fit")
    parser.add_argument("--output", type=Path, default=Path("build/attacks"))
    given = parser.parse_args(args)
    names = NAMES if given.name == "all" else (given.name,)
    minutes = given.minutes / len(names)
    return max(
        attack(Run(name, minutes, given.seed, given.count, given.output))
        for name in names
    )


def attack(run: Run) -> int:
    """Run an attack, print its row, and return 1 if it found something."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    warnings.simplefilter("ignore")
    try:
        importlib.import_module(f"{__package__}.{run.attack}").attack(run)
    except Exception as error:  # noqa: BLE001 (the other attacks run all the same)
        run.finding(f"the attack ended early: {error!r}")
    finally:
        run.write()
    return int(bool(run.findings))


if __name__ == "__main__":
    sys.exit(main())
