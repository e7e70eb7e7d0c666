"""Parts, judgements, corpus: the whole way, each step done once."""

import json
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from spacy_elmo.files import sha256

from .join import join
from .judge import avoided, judge_part
from .parts import build_part, part_path
from .source import Source

SUMS = Path(__file__).parent / "sums.json"


def build(
    language: str,
    sources: tuple[Source, ...],
    mirrors: Path,
    output: Path,
    jobs: int = 1,
    record: bool = False,
    even: dict[str, int] | None = None,
    limits: dict[str, int] | None = None,
) -> dict[str, Any]:
    """Write `LANGUAGE_train.txt` and, beside it, what is in it as JSON.

    Args:
        language: The name of the corpus and of its held-out and evaluation texts.
        sources: The table of the language.
        mirrors: The folder of the repositories' mirrors.
        output: The folder of the corpus; its parts lie in `parts/`.
        jobs: Processes that make parts.
        record: Write the SHA-256 of what comes out to the table, instead of comparing.
        even: Genres, and the words of each at most in `LANGUAGE_even.txt`, which is
            written beside it.
        limits: The same for `LANGUAGE_limited.txt`. The table has the SHA-256 of the
            limits that a model was trained with.

    Raises:
        ValueError: A part or a text has another SHA-256 than the table says, and then
            that text is not written, or a limit is of a genre that no source has.
    """
    genres = {source.genre for source in sources}
    if unknown := set(limits or {}) - genres:
        raise ValueError(f"no source is of {sorted(unknown)}, but of {sorted(genres)}")
    make = partial(_judged, language=language, mirrors=mirrors, output=output)
    if jobs == 1:
        for source in sources:
            make(source)
    else:
        with get_context("spawn").Pool(jobs, maxtasksperchild=1) as pool:
            list(pool.imap_unordered(make, sources, chunksize=1))
    parts = [part_path(source, output) for source in sources]
    _check({part.stem: sha256(part) for part in parts}, record)
    avoid = avoided(language)
    found = [judge_part(part, avoid) for part in parts]
    asked = {"even": even, "limited": limits}
    shares = {name: of for name, of in asked.items() if of}

    def check(name: str, digest: str) -> None:
        if name.endswith("_limited"):
            name += "".join(f" {g}={n}" for g, n in sorted((limits or {}).items()))
        _check({name: digest}, record)

    train = output / f"{language}_train.txt"
    report = join(sources, parts, found, train, shares, check)
    text = json.dumps(report, indent=1, ensure_ascii=False)
    (output / f"{language}_train.json").write_text(text + "\n", encoding="utf-8")
    return report


def _judged(source: Source, language: str, mirrors: Path, output: Path) -> None:
    judge_part(build_part(source, mirrors, output), avoided(language))


def _check(sums: dict[str, str], record: bool) -> None:
    known = json.loads(SUMS.read_text("utf-8")) if SUMS.exists() else {}
    if record:
        text = json.dumps(dict(sorted((known | sums).items())), indent=1)
        SUMS.write_text(text + "\n", encoding="utf-8")
        return
    for name, digest in sums.items():
        if known.get(name, digest) != digest:
            raise ValueError(
                f"{name} has the SHA-256 {digest}, and the table says {known[name]}. "
                "Was a part built by another version? Delete it and build again."
            )
