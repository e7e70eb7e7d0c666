"""The directive `settings`: the settings of a block, from the code that reads it.

    ```{settings} architectures spacy-elmo.Encode.v1
    ```

names a registry and a registered name; one word is the path of a class. Types and
defaults are those of the signature; descriptions those of docstrings, of fields, or of
the comments beside them. The content describes what none of them does, a setting on
each line: `width: ...`. A setting without a description is a warning, and so fails
`make docs`.
"""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

from directive import Generated, escaped
from docutils import nodes
from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)
# Where settings that are passed on ("As in `ElmoSettings`") are described.
SHARED = (
    "spacy_elmo.pipeline.settings.ElmoSettings",
    "spacy_elmo.pipeline.settings.ListenerSettings",
    "spacy_elmo.bilm.config.BiLMConfig",
)
REQUIRED = inspect.Parameter.empty
FIELD = re.compile(r"    (\w+): .+?(?:  # (.+))?")
ARGUMENT = re.compile(r"(\w+)(?: \([^)]*\))?: (.*)")


class Setting(NamedTuple):
    """A setting of a block."""

    name: str
    default: Any
    text: str


def find(where: str) -> Any:
    """Return the function or class that a directive names."""
    registry_name, _, name = where.partition(" ")
    if not name:
        module, _, attribute = where.rpartition(".")
        return getattr(import_module(module), attribute)
    import spacy

    from spacy_elmo.pretrain import config  # noqa: F401  (registers what training names)
    from spacy_elmo.registry import registry

    for each in (registry, spacy.registry):
        entries = getattr(each, registry_name, None)
        if entries is not None and name in entries:
            return entries.get(name)
    raise LookupError(f"{where} is not registered")


def settings_of(found: Any, more: dict[str, str]) -> Iterator[Setting]:
    """Yield the settings of a block."""
    texts = {name: text for path in SHARED for name, text in described(find(path))}
    texts |= {**dict(described(found)), **more}
    for name, default in defaults(found):
        yield Setting(name, default, texts.get(name, ""))


def defaults(found: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and defaults."""
    if inspect.isclass(found) and issubclass(found, BaseModel):
        for name, field in found.model_fields.items():
            undefined = field.default is PydanticUndefined
            yield name, REQUIRED if undefined else field.default
        return
    for parameter in inspect.signature(found).parameters.values():
        if parameter.name not in ("nlp", "name") or parameter.default is not REQUIRED:
            yield parameter.name, parameter.default


def described(found: Any) -> Iterator[tuple[str, str]]:
    """Yield names and descriptions: of docstrings, of fields, of comments."""
    classes = reversed(found.__mro__) if inspect.isclass(found) else [found]
    for each in classes:
        if each.__module__.startswith("spacy_elmo"):
            yield from _arguments(inspect.getdoc(each) or "")
    if inspect.isclass(found) and issubclass(found, BaseModel):
        yield from _comments(inspect.getsource(found))
        for name, field in found.model_fields.items():
            if field.description:
                yield name, field.description


def _arguments(docstring: str) -> Iterator[tuple[str, str]]:
    """Yield what the section 'Args:' describes."""
    section = re.search(r"^Args:\n((?:    .*\n?|\n)+)", docstring, re.MULTILINE)
    for entry in re.split(r"\n    (?=\w)", section[1].strip() if section else ""):
        if match := ARGUMENT.match(" ".join(entry.split())):
            yield match[1], match[2]


def _comments(source: str) -> Iterator[tuple[str, str]]:
    """Yield the comment beside each field, or that above it."""
    above: list[str] = []
    for line in source.splitlines():
        if line.startswith("    # "):
            above.append(line.strip(" #"))
        elif match := FIELD.fullmatch(line):
            text = match[2] or " ".join(above)
            if text:
                yield match[1], text[:1].upper() + text[1:].rstrip(".") + "."
            above = []
        else:
            above = []


class Settings(Generated):
    """Show the settings of a block as a table."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        found = find(self.arguments[0])
        lines = ["| setting | default | |", "|---|---|---|"]
        for name, default, text in settings_of(found, self.more()):
            if not text:
                where = self.get_location()
                message = "%s: the setting %s has no description"
                logger.warning(message, self.arguments[0], name, location=where)
            shown = "required" if default is REQUIRED else f"`{_written(default)}`"
            lines.append(f"| `{name}` | {shown} | {escaped(text)} |")
        return self.parsed(lines)


def _written(value: Any) -> str:
    """Return a default as a configuration has it."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_written, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("settings", Settings)
    return {"parallel_read_safe": True}
