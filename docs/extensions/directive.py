"""What the directives of these pages share."""

import re

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

CODE = re.compile(r"(`[^`]*`)")


class Generated(SphinxDirective):
    """A directive that writes Markdown, with what its content says more."""

    has_content = True

    def more(self) -> dict[str, str]:
        """Return the content, lines `name: text`, by name."""
        return dict(line.split(": ", 1) for line in self.content if ": " in line)

    def parsed(self, lines: list[str]) -> list[nodes.Node]:
        """Return lines of Markdown, headings among them, as nodes."""
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


def escaped(text: str) -> str:
    """Return text that a cell of a Markdown table shows as it is, but for `code`."""
    parts = CODE.split(text)
    for i, part in enumerate(parts):
        special = "|" if i % 2 else "\\\\*_|<>\\[\\]$"
        parts[i] = re.sub(f"([{special}])", r"\\\1", part)
    return "".join(parts)
