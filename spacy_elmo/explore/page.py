"""A page: one HTML file with its style, its script and its data. It can load nothing
else."""

import base64
import hashlib
import html
import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Literal

from ..files import write_file

TEMPLATES = files(__package__) / "templates"
# The content security policy of a page: no network, one style and one script, given by
# their hashes, and no string that becomes HTML.
POLICY = (
    "default-src 'none'; style-src '{style}'; script-src '{script}'; base-uri 'none'; "
    "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
FRAME = (
    '<iframe title="{title}" srcdoc="{page}" sandbox="allow-scripts" width="100%" '
    'height="760" style="border: 0"></iframe>'
)
MAX_SHOWN = 60  # characters of a token that are shown
# Characters that change the direction of the text after them.
DIRECTION_CONTROLS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@dataclass(frozen=True)
class View:
    """The content of a page.

    Attributes:
        kind: Name of the script that draws the data.
        title: Title of the page.
        about: A line below the title.
        data: The data, in types that JSON has.
    """

    kind: Literal["word", "sentence", "mix"]
    title: str
    about: str
    data: Mapping[str, Any]


@dataclass(frozen=True)
class Page:
    """An HTML page. A notebook displays it."""

    title: str
    html: str

    def save(self, path: str | Path) -> None:
        """Write the page to a file, whole or not at all. Raises OSError [EL013] if that
        fails."""
        write_file(path, self.html)

    def _repr_html_(self) -> str:
        title, page = html.escape(self.title), html.escape(self.html)
        return FRAME.format(title=title, page=page)


def render(view: View) -> Page:
    """Return the page of a view, by `word_view`, `sentence_view` or `mix_view`. It
    needs no network, no server and no other file."""
    style = _read("style.css")
    script = f'"use strict";\n{_read("common.js")}\n{_read(f"{view.kind}.js")}'
    # A closing tag in the data would end the script that they are in.
    data = json.dumps(dict(view.data), ensure_ascii=False, separators=(",", ":"))
    policy = POLICY.format(style=_hash(style), script=_hash(script))
    title = visible(view.title, 200)
    page = Template(_read("page.html")).substitute(
        policy=policy,
        title=html.escape(title),
        about=html.escape(visible(view.about, 400)),
        kind=view.kind,
        style=style,
        data=data.replace("<", "\\u003c"),
        script=script,
    )
    return Page(title, page)


def visible(text: str, limit: int | None = MAX_SHOWN) -> str:
    """Cut a text to a length, and replace control characters by their numbers. They
    would break lines, or have a terminal do what they say."""
    shown = "".join(map(_visible, text[:limit]))
    return f"{shown}…" if limit is not None and len(text) > limit else shown


def _visible(c: str) -> str:
    hidden = unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")
    return f"‹U+{ord(c):04X}›" if hidden or c in DIRECTION_CONTROLS else c


def _read(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
