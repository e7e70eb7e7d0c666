"""Text -> shards: tokenized once, by many processes, in memory that grows with the
number of distinct words alone.

    blocks of lines --processes--> parts (own word numbers) --one pass--> shards

A part depends on its block alone and parts are joined in order, so what is written does
not depend on the number of processes, nor on how often the work was interrupted.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from ..atomic_files import recover, sha256, write_files, write_text
from ..errors import Errors
from .join import join_parts
from .parts import Request, make_parts
from .reading import tokenize_with
from .shards import FORMAT_VERSION, MANIFEST, check_files, is_prepared

__all__ = ["PARTS", "Request", "prepare"]

PARTS, REQUEST = "unfinished", "request.json"


def prepare(
    sources: Sequence[Path],
    output: Path,
    request: Request,
    *,
    processes: int = 1,
    overwrite: bool = False,
    progress: bool = True,
) -> dict[str, Any]:
    """Write a prepared corpus (see `shards.py`), or resume an interrupted one.

    Args:
        sources: Text files, as `read_lines` takes them.
        output: The folder to write.
        request: Tokenizer, vocabulary, and how much text.
        processes: Number of processes that tokenize.
        overwrite: Whether to replace a corpus prepared otherwise, or a damaged one.
        progress: Whether to show a progress bar.

    Returns:
        The manifest.

    Raises:
        ValueError: [EL033] There is no text; [EL041, EL042] another corpus is there,
            or a damaged one; also as `tokenize_with` and `read_lines`.
        OSError: [EL013] A file can't be written; [EL044] a process was killed; also as
            `read_lines`. What was done until then is kept, to resume from.
    """
    wanted = {
        "request": asdict(request),
        "sources": [sha256(path) for path in sources],
    }
    if is_prepared(output):
        try:
            manifest = check_files(output)
        except ValueError:
            if not overwrite:
                raise
            manifest = {}
        if {key: manifest.get(key) for key in wanted} == wanted:
            return manifest
        if not overwrite:
            raise ValueError(Errors.EL042.format(path=output))
    tokenize_with(request.lang, request.tokenizer, request.sentences)  # or refuse now
    if output.exists():
        recover(output)
    parts = _resume(output, wanted)
    n_parts = make_parts(
        sources, parts, request, processes=processes, progress=progress
    )
    (output / MANIFEST).unlink(missing_ok=True)
    manifest = {"format": FORMAT_VERSION, **wanted}
    manifest |= join_parts(parts, n_parts, output, request)
    for path in output.glob("*.npy"):
        if path.name not in manifest["files"]:
            path.unlink()
    text = json.dumps(manifest, indent=2, ensure_ascii=False)
    write_files(output, {MANIFEST: partial(write_text, text)})
    shutil.rmtree(parts)
    return manifest


def _resume(output: Path, wanted: dict[str, Any]) -> Path:
    """Return the folder of parts, emptied unless they were made for the same."""
    parts = output / PARTS
    request = parts / REQUEST
    text = json.dumps(wanted, sort_keys=True)
    if parts.exists() and not (
        request.exists() and request.read_text(encoding="utf-8") == text
    ):
        shutil.rmtree(parts)
    if parts.exists():
        recover(parts)
    write_files(parts, {REQUEST: partial(write_text, text)})
    return parts
