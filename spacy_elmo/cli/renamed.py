"""Commands and options that had another name in version 0.2.

An old name does the same until version 0.4, and standard error says the new one.
"""

from typing import Any

import typer
from typer.core import TyperGroup

from ..errors import Errors, Warnings
from ..output import clear_errors

# Old command -> new one, with options that make it do the same.
COMMANDS: dict[str, list[str]] = {
    "mix": ["explore", "mix", "--format", "plot"],
    "neighbours": ["explore", "word", "--format", "table"],
}
# Old option -> new one, with a value where the old one had none.
OPTIONS: dict[str, list[str]] = {
    "--overwrite": ["--force"],
    "--processes": ["--n-process"],
    "--half": ["--precision", "float16"],
    "--no-half": ["--precision", "float32"],
    "--dtype": ["--save-precision"],
    "--to": ["--format"],
    "--elmo": ["--at"],
    "--n": ["--n-nearest"],
    "--limit": ["--limit-mb"],
    "--shards": ["--share"],
}
# Option whose value may be left out -> that value.
OPTIONAL = {"--ray": "auto"}
_EXPORT = "'spacy elmo embed export FOLDER TARGET --format NAME' writes another format"
_PCA = "write all dimensions, and fit sklearn.decomposition.PCA on the vectors of "
_PCA += "spacy_elmo.embed.open(FOLDER)"
# A command, and what followed it, that are gone -> what to do.
GONE = {
    "benchmark inference": "'spacy elmo benchmark MODEL TEXT' measures this machine",
    "benchmark precision": "'python -m benchmarks.precision' in a clone of the "
    "repository measures it",
    "plan --format": _EXPORT,
    "run --format": _EXPORT,
    "plan --dimensions": _PCA,
    "run --dimensions": _PCA,
}


class Group(TyperGroup):
    """A group of commands, which knows their old names and those of their options. An
    error of a command is one message."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that arguments name."""
        with clear_errors():
            return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Return the command that arguments name, and the arguments that follow."""
        old, *rest = args
        if old in COMMANDS and old not in self.commands:
            _say(old, COMMANDS[old][:2])
            args = [*COMMANDS[old], *rest]
        elif rest:
            _refuse_what_is_gone(f"{old} {rest[0]}")
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, _with_new_options(command, rest)


def _with_new_options(command: Any, args: list[str]) -> list[str]:
    """Return arguments with the new names of a command's options, and with the values
    that are left out."""
    known = {name for option in command.params for name in option.opts}
    found: list[str] = []
    for i, (each, following) in enumerate(zip(args, [*args[1:], "-"])):
        if each == "--":  # what follows are no options
            return found + args[i:]
        old, equals, value = each.partition("=")
        new = OPTIONS.get(old, [""])
        if new[0] in known and old not in known:
            _say(old, new)
            found += [f"{new[0]}={value}"] if equals else new
            continue
        if old not in known:
            _refuse_what_is_gone(f"{command.name} {old}")
        found.append(each)
        if each in OPTIONAL and each in known and following.startswith("-"):
            found.append(OPTIONAL[each])
    return found


def _say(old: str, new: list[str]) -> None:
    typer.echo(Warnings.ELW70(old=old, new=" ".join(new)), err=True)


def _refuse_what_is_gone(name: str) -> None:
    """Raise BadParameter [EL240] for a command or an option that is gone, as GONE names
    it."""
    if name in GONE:
        raise typer.BadParameter(str(Errors.EL240(name=name, instead=GONE[name])))
