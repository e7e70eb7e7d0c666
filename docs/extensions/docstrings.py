"""Docstrings as Sphinx reads them: code in double quotes, error codes as links.

The docstrings of the package are plain text with `code` in single backquotes and error
codes in brackets. What reStructuredText would take for markup is escaped.
"""

import re
from typing import Any

from sphinx.application import Sphinx

CODE = re.compile(r"(``.*?``|`[^`]+`)", re.DOTALL)
ERROR = re.compile(r"\bELW?\d{2,3}\b")
# A block that is indented and stands after an empty line: code, or a diagram.
BLOCK = re.compile(r"(?<=\n\n)((?: {4}.*\n|\n)+)")


def render(text: str) -> str:
    """Return a docstring in reStructuredText."""
    parts = BLOCK.split(text + "\n")
    for i, part in enumerate(parts):
        if i % 2:
            parts[i] = f".. code-block:: text\n\n{part}\n"
        else:
            parts[i] = _prose(part)
    return "".join(parts)


def _prose(text: str) -> str:
    parts = CODE.split(text)
    for i, part in enumerate(parts):
        if i % 2:
            code = " ".join(part.strip("`").split())
            parts[i] = f"``{code}``"
        else:
            escaped = re.sub(r"([*|])|(?<=\w)(_)(?!\w)", r"\\\1\2", part)
            parts[i] = ERROR.sub(lambda m: f":ref:`{m[0]} <{m[0].lower()}>`", escaped)
    return "".join(parts)


def process(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Rewrite a docstring before napoleon reads its sections."""
    lines[:] = render("\n".join(lines)).splitlines()
    if what in ("property", "attribute"):
        # Or napoleon would take what stands before a colon for a type.
        lines[:0] = ["..", ""]


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the rewriting."""
    app.connect("autodoc-process-docstring", process, priority=100)
    return {"parallel_read_safe": True}
