"""What commands print: messages and results, as far as a stream can show them.

Streams that are redirected or piped have the encoding of the system, cp949 or cp1252 on
Windows. What such an encoding does not have is shown by its number (`backslashreplace`
of Python), and never ends a command that has done its work.
"""

import json
import sys
from typing import Any

from wasabi import Printer


class Messages(Printer):
    """wasabi's printer, whose icons are put before messages here: wasabi 1.1 encodes a
    message with an icon by the encoding of the stream and decodes it as UTF-8."""

    def text(self, title: Any = "", *more: Any, icon: Any = None, **how: Any) -> Any:
        """Print a message; arguments and what is returned are those of wasabi."""
        mark = self.icons.get(icon) if self.pretty else None
        return super().text(f"{mark} {title}" if mark else title, *more, **how)


msg = Messages()


def show_all() -> None:
    """Have standard output and errors show what their encoding does not have by its
    number. A command does so when it starts."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # some are replaced by other objects
            stream.reconfigure(errors="backslashreplace")


def write(text: str) -> None:
    """Write text to standard output as it is."""
    sys.stdout.write(text)


def write_page(text: str) -> None:
    """Write a page, which says that it is UTF-8, to standard output."""
    sys.stdout.flush()
    binary = getattr(sys.stdout, "buffer", None)
    if binary is None:
        sys.stdout.write(text)
    else:
        binary.write(text.encode("utf-8"))
        binary.flush()


def write_json(data: Any, **how: Any) -> None:
    """Write data to standard output as JSON, which spells in ASCII what the encoding
    does not have."""
    text = json.dumps(data, ensure_ascii=False, **how)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(data, **how)
    write(f"{text}\n")
