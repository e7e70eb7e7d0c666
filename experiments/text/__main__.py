"""`python -m experiments.text build english --sources FOLDER --output corpus/`."""

import argparse
import importlib
from pathlib import Path

from . import heldout, seen
from .build import build
from .evaluation import CORPORA, make_evaluation
from .lines import copy_lines
from .parts import build_part, pin
from .source import Source

LANGUAGES = ("english", "korean", "german", "french", "spanish", "portuguese")


def table_of(language: str) -> tuple[tuple[Source, ...], dict[str, int]]:
    """The sources of a language, and the limits of its even text."""
    module = importlib.import_module(f".{language}", __package__)
    return module.SOURCES, getattr(module, "EVEN", {})


def _limit(text: str) -> tuple[str, int]:
    genre, words = text.split("=")
    return genre, int(words)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the commands."""
    parser = argparse.ArgumentParser(prog="python -m experiments.text")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, about in (
        ("build", "write the corpus of a language"),
        ("part", "write some parts of it only, before the filters"),
        ("pin", "list again which files the sources read"),
        ("heldout", "write the held-out texts of a language from its parts"),
        ("seen", "number again the runs of words of the evaluation texts"),
    ):
        command = commands.add_parser(name, help=about)
        command.add_argument("language", choices=LANGUAGES)
        if name == "seen":
            command.add_argument("--evaluation", type=Path, required=True)
            continue
        if name == "heldout":
            command.add_argument("--output", type=Path, default=Path("corpus"))
            continue
        command.add_argument("--sources", type=Path, required=True)
        if name != "pin":
            command.add_argument("--output", type=Path, default=Path("corpus"))
        if name == "build":
            command.add_argument("--jobs", type=int, default=1)
            command.add_argument("--record", action="store_true")
            command.add_argument(
                "--limit",
                type=_limit,
                nargs="+",
                metavar="GENRE=WORDS",
                help="at most so many words of a genre, in LANGUAGE_limited.txt",
            )
        else:
            command.add_argument("--only", nargs="*")
    evaluation = commands.add_parser(
        "evaluation", help="write the corpora that are put together from repositories"
    )
    evaluation.add_argument("--sources", type=Path, required=True)
    evaluation.add_argument("--output", type=Path, default=Path("corpus"))
    names = [corpus.path for corpus in CORPORA]
    evaluation.add_argument("--only", nargs="+", choices=names)
    lines = commands.add_parser("lines", help="copy some lines of a text")
    lines.add_argument("text", type=Path)
    lines.add_argument("output", type=Path)
    lines.add_argument("--skip", type=int, default=0, help="so many lines at the start")
    lines.add_argument("--limit", type=int, help="at most so many lines")
    return parser


def main() -> None:
    options = make_parser().parse_args()
    if options.command == "seen":
        print(*seen.write(options.language, options.evaluation))
        return
    if options.command == "evaluation":
        print(*make_evaluation(options.sources, options.output, options.only), sep="\n")
        return
    if options.command == "lines":
        copied = copy_lines(options.text, options.output, options.skip, options.limit)
        print(f"{copied:,} lines")
        return
    sources, even = table_of(options.language)
    if options.command == "heldout":
        print(heldout.write(options.language, sources, options.output))
        return
    if options.command == "build":
        report = build(
            options.language,
            sources,
            options.sources,
            options.output,
            options.jobs,
            options.record,
            even,
            dict(options.limit or {}),
        )
        print(f"{report['words']:,} words, SHA-256 {report['sha256']}")
        return
    unknown = set(options.only or ()) - {source.name for source in sources}
    if unknown:
        raise SystemExit(f"no source {sorted(unknown)} of {options.language}")
    for source in sources:
        if options.only is not None and source.name not in options.only:
            continue
        if options.command == "pin":
            print(source.name, pin(source, options.sources), flush=True)
        else:
            build_part(source, options.sources, options.output)


if __name__ == "__main__":
    main()
