"""The page of error codes, docs/reference/errors.md, from spacy_elmo/errors.py.

    python docs/extensions/error_codes.py

writes it. docs/reference/ways_out.txt has the ways out that messages leave unsaid, one
on each line: `EL006: ...`. A test compares the page with what this writes.
"""

import re
from collections.abc import Iterator
from inspect import getsource
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from directive import escaped

from spacy_elmo import errors

if TYPE_CHECKING:
    from sphinx.application import Sphinx

REFERENCE = Path(__file__).parents[1] / "reference"
PAGE, WAYS_OUT = REFERENCE / "errors.md", REFERENCE / "ways_out.txt"
HEAD = """# Error codes

Every error and warning has a code, such as `[EL050]`, and says what is wrong and what
to do. Parts in `<...>` stand for what the message names.

<!-- Written by `python docs/extensions/error_codes.py`: change spacy_elmo/errors.py or
ways_out.txt, not this page. -->
"""
PLACE = re.compile(r"\{\{|\}\}|\{(\w+)[^}]*\}")
COMMENT = re.compile(r"    # (.+)")
CODE = re.compile(r"    (ELW?\d+) = ")


class Code(NamedTuple):
    """A code with its message, and the part of the table that it stands in."""

    code: str
    message: str
    section: str

    @property
    def cause(self) -> str:
        """The first sentence of the message."""
        return _sentences(self.message)[0]

    @property
    def way_out(self) -> str:
        """What the message says after the cause."""
        return " ".join(_sentences(self.message)[1:])


def codes() -> Iterator[Code]:
    """Yield all codes, errors and then warnings, in the order of the table."""
    section, kind = "", errors.Errors
    for line in getsource(errors).splitlines():
        if line.startswith("class Warnings"):
            section, kind = "Warnings", errors.Warnings
        if found := COMMENT.match(line):
            section = found[1]
        elif found := CODE.match(line):
            code = found[1]
            message = getattr(kind, code).template
            yield Code(code, PLACE.sub(_place, message), section)


def _place(match: re.Match[str]) -> str:
    return f"<{match[1]}>" if match[1] else match[0][0]  # {{ stands for {


def _sentences(message: str) -> list[str]:
    return re.split(r"(?<=[.?])\s+(?=[A-Z'(])", message)


def page() -> str:
    """Return the page of all codes, as Markdown that can be read without the site.

    Raises:
        ValueError: If a code has no way out, neither in its message nor in WAYS_OUT.
    """
    more = dict(
        line.split(": ", 1) for line in WAYS_OUT.read_text("utf-8").splitlines()
    )
    lines, section = [HEAD], ""
    for each in codes():
        if each.section != section:
            section = each.section
            lines += [f"## {section}", ""]
        way_out = " ".join(filter(None, [each.way_out, more.get(each.code, "")]))
        if not way_out:
            raise ValueError(f"{each.code} has no way out: write one in {WAYS_OUT}")
        lines += [f"### {each.code}", ""]
        lines += [f"**Cause:** {_shown(each.cause)}", ""]
        lines += [f"**Way out:** {_shown(way_out)}", ""]
    return "\n".join(lines)


def _shown(message: str) -> str:
    """Return a message as Markdown, its places as code."""
    return re.sub(r"\\<(\w*)\\>", r"`<\1>`", escaped(message)).replace(r"\_", "_")


def _with_targets(app: "Sphinx", name: str, source: list[str]) -> None:
    """Let other pages link to a code as `[EL050](el050)`."""
    if name == "reference/errors":
        heading = re.compile(r"^### (ELW?\d+)$", re.MULTILINE)
        source[0] = heading.sub(lambda m: f"({m[1].lower()})=\n{m[0]}", source[0])


def setup(app: "Sphinx") -> dict[str, bool]:
    """Add the targets of links."""
    app.connect("source-read", _with_targets)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
