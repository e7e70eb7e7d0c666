"""The directive `commands`: every command of `spacy elmo`, with arguments and options.

It walks over the commands that typer makes, so that the page is what `--help` says.
"""

from collections.abc import Iterator
from typing import Any

from directive import Generated, escaped
from docutils import nodes
from sphinx.application import Sphinx
from typer.main import get_command

from spacy_elmo.cli import app as elmo


def walk(command: Any, name: str = "elmo") -> Iterator[tuple[str, Any]]:
    """Yield the full name of every command that is not hidden, and the command."""
    for key, child in getattr(command, "commands", {}).items():
        if not child.hidden:
            yield from walk(child, f"{name} {key}")
    if not hasattr(command, "commands"):
        yield name, command


class Commands(Generated):
    """Show every command."""

    def run(self) -> list[nodes.Node]:
        """Return a section for each command."""
        lines: list[str] = []
        for name, command in sorted(walk(get_command(elmo))):
            lines += [f"({name.replace(' ', '-')})=", f"## {name}", ""]
            lines += [escaped(_help(command)), "", *_usage(name, command), ""]
            lines += _table(command)
        return self.parsed(lines)


def _help(command: Any) -> str:
    paragraphs = (command.help or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _usage(name: str, command: Any) -> list[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    words = []
    for argument in arguments:
        word = argument.name.upper() + ("..." if argument.nargs == -1 else "")
        words.append(word if argument.required else f"[{word}]")
    return ["```text", f"python -m spacy {name} {' '.join(words)} [OPTIONS]", "```"]


def _table(command: Any) -> list[str]:
    rows = []
    for parameter in command.params:
        if getattr(parameter, "hidden", False) or parameter.name == "help":
            continue
        if parameter.param_type_name == "argument":
            name = parameter.name.upper()
        else:
            opts = [*parameter.opts, *parameter.secondary_opts]
            name = ", ".join(f"`{opt}`" for opt in opts)
        text = escaped(getattr(parameter, "help", None) or "")
        rows.append(f"| {name} | {text} | {_default(parameter)} |")
    return ["| | | default |", "|---|---|---|", *rows, ""] if rows else []


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    default = parameter.default
    if callable(default):
        default = default()
    if default is None or default == () or "UNSET" in repr(default):
        return ""
    if isinstance(default, (list, tuple)):
        default = " ".join(map(str, default))
    return f"`{default}`"


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}
