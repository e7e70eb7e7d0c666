"""`python -m experiments.text build english --sources FOLDER --output corpus/`."""

import argparse
import importlib
from pathlib import Path

from .parts import build_part, pin
from .source import Source


def sources_of(language: str) -> tuple[Source, ...]:
    """The table of a language."""
    module = importlib.import_module(f".{language}", __package__)
    found: tuple[Source, ...] = module.SOURCES
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.text")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("build", "pin", "part"):
        command = commands.add_parser(name)
        command.add_argument("language", choices=("english", "korean"))
        command.add_argument("--sources", type=Path, required=True)
        command.add_argument("--only", nargs="*", default=None)
        command.add_argument("--output", type=Path, default=Path("corpus"))
    options = parser.parse_args()
    for source in sources_of(options.language):
        if options.only is not None and source.name not in options.only:
            continue
        if options.command == "pin":
            print(source.name, pin(source, options.sources), flush=True)
        else:
            build_part(source, options.sources, options.output)


if __name__ == "__main__":
    main()
