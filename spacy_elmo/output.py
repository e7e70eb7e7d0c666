"""The output of commands: messages and results.

A stream that is redirected or piped has the encoding of the system, such as cp949 or
cp1252 on Windows. A character that the encoding lacks is shown by its number (Python's
`backslashreplace`), so that it can't end a command that has done its work.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wasabi import Printer


class Messages(Printer):
    """wasabi's printer, with icons put before messages here. wasabi 1.1 encodes a
    message with an icon by the encoding of the stream, and decodes it as UTF-8."""

    def text(self, title: Any = "", *more: Any, icon: Any = None, **how: Any) -> Any:
        """Print a message. Arguments and result are those of wasabi."""
        mark = self.icons.get(icon) if self.pretty else None
        return super().text(f"{mark} {title}" if mark else title, *more, **how)


msg = Messages()


@contextmanager
def clear_errors() -> Iterator[None]:
    """Turn an error into one message, without a traceback, and exit with status 1."""
    try:
        yield
    except (ValueError, OSError, ImportError, MemoryError) as error:
        msg.fail(str(error) or type(error).__name__)  # a MemoryError may say nothing
        sys.exit(1)
    except KeyboardInterrupt:
        msg.warn("Stopped. What was saved before is whole; run it again to go on.")
        sys.exit(130)


def show_all() -> None:
    """Make standard output and standard error show characters that their encoding lacks
    by their numbers. A command calls this when it starts."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a program may have replaced the stream
            stream.reconfigure(errors="backslashreplace")


def write(text: str) -> None:
    """Write text to standard output."""
    sys.stdout.write(text)


def write_page(text: str) -> None:
    """Write an HTML page to standard output, in UTF-8, as the page says."""
    sys.stdout.flush()
    binary = getattr(sys.stdout, "buffer", None)
    if binary is None:
        sys.stdout.write(text)
    else:
        binary.write(text.encode("utf-8"))
        binary.flush()


def write_json(data: Any, **how: Any) -> None:
    """Write data to standard output as JSON; in ASCII if the encoding lacks a
    character.
    """
    text = json.dumps(data, ensure_ascii=False, **how)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(data, **how)
    write(f"{text}\n")
