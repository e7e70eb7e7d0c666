"""The directive `error-codes`: every code of spacy_elmo/errors.py, from its table.

Its content has the ways out that messages leave unsaid, one on each line: `EL006: ...`.
A code without a way out is a warning, and so fails `make docs`.
"""

import re
from collections.abc import Iterator
from inspect import getsource
from typing import NamedTuple

from directive import Generated, escaped
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

from spacy_elmo import errors

logger = logging.getLogger(__name__)
PLACE = re.compile(r"\{(\w*)[^}]*\}")
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
    return f"<{match[1]}>" if match[1] else "..."


def _sentences(message: str) -> list[str]:
    return re.split(r"(?<=[.?])\s+(?=[A-Z'(])", message)


class ErrorCodes(Generated):
    """Show every code with its cause and way out."""

    def run(self) -> list[nodes.Node]:
        """Return the sections of all codes."""
        self.env.note_dependency(errors.__file__)
        lines, section, more = [], None, self.more()
        for each in codes():
            if each.section != section:
                section = each.section
                lines += [f"## {section}", ""]
            way_out = " ".join(filter(None, [each.way_out, more.get(each.code, "")]))
            if not way_out:
                logger.warning(
                    "%s has no way out", each.code, location=self.get_location()
                )
            lines += [f"({each.code.lower()})=", f"### {each.code}", ""]
            lines += [f"**Cause:** {escaped(each.cause)}", ""]
            lines += [f"**Way out:** {escaped(way_out)}", ""]
        return self.parsed(lines)


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("error-codes", ErrorCodes)
    return {"parallel_read_safe": True}
