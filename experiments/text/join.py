"""The parts, filtered, cut to pieces, shuffled and written as one text."""

import hashlib
import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from .judge import EVALUATION_RUN, EVALUATION_SENTENCE, HELD_OUT_RUN, Judgement
from .source import Source

PIECE = 2_000  # words: longer documents are cut before they are shuffled
HELD_OUT_RUNS = 20  # so many runs shared with a held-out text: the document is out
_SEEN_SHARE = 0.5  # of a paragraph's sampled runs that makes it a near-duplicate
_LEFT_SHARE = 0.5  # of a document's words that have to be left
_LEFT_WORDS = 20
_DEDUPED = 8  # words: shorter paragraphs may be repeated

Bools = npt.NDArray[np.bool_]
# Raises an error where a text, by its name, has another SHA-256 than it should.
Check = Callable[[str, str], None]


class Piece(NamedTuple):
    """Lines of one document: where they are in a part, and which of them stay."""

    key: bytes
    part: int
    place: int
    bytes: int
    stay: Bools
    words: int


def join(
    sources: tuple[Source, ...],
    parts: list[Path],
    found: list[Judgement],
    output: Path,
    shares: Mapping[str, dict[str, int]],
    check: Check,
) -> dict[str, Any]:
    """Write the corpus of a language; the report, which says what was dropped. shares:
    names of further texts, LANGUAGE_NAME.txt, and the words of some genres at most.
    What `check` raises for a text leaves the one that was there before."""
    kept, reports = _filtered(found)
    pieces: list[Piece] = []
    for number, source in enumerate(sources):
        names = _names(parts[number])
        chosen = _chosen(source, found[number], kept[number], names)
        report = reports[number]
        report["over the limit"] = _words(found[number], kept[number] & ~chosen)
        report["words"] = _words(found[number], chosen)
        report["documents"] = len(np.unique(found[number].document[chosen]))
        pieces += _pieces(number, source, found[number], chosen, names)
    pieces.sort()
    digest = _write(pieces, parts, output, check)
    report = _report(sources, reports, digest)
    for name, limits in shares.items():
        path = output.with_name(output.name.replace("_train", f"_{name}"))
        share = list(_limited(pieces, sources, limits))
        digest = _write(share, parts, path, check)
        words = sum(piece.words for piece in share)
        report[name] = {"words": words, "sha256": digest, "limits": limits}
    return report


def _limited(
    pieces: list[Piece], sources: tuple[Source, ...], limits: dict[str, int]
) -> Iterator[Piece]:
    """Pieces in their order, up to the limit of their genre."""
    left = dict(limits)
    for piece in pieces:
        genre = sources[piece.part].genre
        if genre in left:
            left[genre] -= piece.words
        if left.get(genre, 0) >= 0:
            yield piece


def _words(judged: Judgement, lines: Bools) -> int:
    return int(judged.words[lines].sum())


def _filtered(found: list[Judgement]) -> tuple[list[Bools], list[dict[str, Any]]]:
    """Which lines of each part stay, and how many words went for what."""
    kept, reports = [], []
    for judged in found:
        held = (judged.held_runs >= HELD_OUT_RUNS) | (judged.held_whole > 0)
        outside = ~held[judged.document]
        run = (judged.flags & EVALUATION_RUN) > 0
        sentence = (judged.flags & EVALUATION_SENTENCE) > 0
        shared = (judged.flags & HELD_OUT_RUN) > 0
        stay = outside & ~run & ~sentence & ~shared
        kept.append(stay)
        reports.append(
            {
                "words before": int(judged.words.sum()),
                "documents before": len(held),
                "held-out documents": int(held.sum()),
                "in held-out documents": _words(judged, ~outside),
                "paragraphs with evaluation runs": int((outside & run).sum()),
                "with evaluation runs": _words(judged, outside & run),
                "paragraphs with evaluation sentences": int(
                    (outside & sentence & ~run).sum()
                ),
                "with evaluation sentences": _words(judged, outside & sentence & ~run),
                "with held-out runs": _words(
                    judged, outside & shared & ~run & ~sentence
                ),
            }
        )
    for number, seen in enumerate(_seen_before(found, kept)):
        judged, report = found[number], reports[number]
        again = kept[number] & seen
        report["near-duplicate paragraphs"] = int(again.sum())
        report["in near-duplicate paragraphs"] = _words(judged, again)
        stay = kept[number] & ~seen
        poor = stay & _poor(judged, stay)
        report["in documents of which little is left"] = _words(judged, poor)
        kept[number] = stay & ~poor
    return kept, reports


def _poor(judged: Judgement, stay: Bools) -> Bools:
    """Lines of documents that have lost too much."""
    before = np.bincount(judged.document, judged.words)
    after = np.bincount(judged.document, judged.words * stay)
    poor = (after < _LEFT_WORDS) | (after < _LEFT_SHARE * before)
    return poor[judged.document]


def _seen_before(found: list[Judgement], kept: list[Bools]) -> Iterator[Bools]:
    """For each part, which lines are mostly runs of words that came before."""
    starts = np.cumsum([0] + [len(judged.document) for judged in found])
    lines = [
        np.concatenate([judged.sample_line, np.arange(len(stay))]) + start
        for judged, stay, start in zip(found, kept, starts)
    ]
    stays = np.concatenate(kept)
    line = np.concatenate(lines)
    number = np.concatenate([x for j in found for x in (j.samples, j.whole)])
    whole = np.concatenate(
        [np.arange(len(j.samples) + len(j.whole)) >= len(j.samples) for j in found]
    )
    length = np.concatenate([judged.words for judged in found])
    asked = stays[line] & (~whole | (length[line] >= _DEDUPED))
    line, number, whole = line[asked], number[asked], whole[asked]
    order = np.lexsort((line, number))
    again = np.zeros(len(line), bool)
    same = number[order[1:]] == number[order[:-1]]
    again[order[1:]] = same & (line[order[1:]] != line[order[:-1]])
    total = np.bincount(line[~whole], minlength=len(stays))
    repeated = np.bincount(line[~whole & again], minlength=len(stays))
    seen = (total >= 2) & (repeated >= _SEEN_SHARE * total)
    seen[line[whole & again]] = True
    for start, stop in itertools.pairwise(starts):
        yield seen[start:stop]


def _names(part: Path) -> list[str]:
    names, first = [], True
    with part.open("rb") as file:
        for raw in file:
            if first:
                names.append(raw.decode("utf-8")[:-1])
            first = raw == b"\n"
    return names


def _key(*parts: object) -> bytes:
    text = "\t".join(map(str, parts))
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _chosen(source: Source, judged: Judgement, stay: Bools, names: list[str]) -> Bools:
    """The lines that a source's limit lets through: whole documents, by lot."""
    if source.max_words is None:
        return stay
    words = np.bincount(judged.document, judged.words * stay, minlength=len(names))
    lot = sorted(range(len(names)), key=lambda number: _key(source.name, names[number]))
    inside = np.zeros(len(names), bool)
    inside[lot] = np.cumsum(words[lot]) <= source.max_words
    return stay & inside[judged.document]


def _pieces(
    part: int, source: Source, judged: Judgement, stay: Bools, names: list[str]
) -> Iterator[Piece]:
    """The documents of a source, long ones in pieces."""
    edges = np.flatnonzero(np.diff(judged.document)) + 1
    for start, stop in zip([0, *edges], [*edges, len(stay)]):
        count = np.cumsum(judged.words[start:stop] * stay[start:stop])
        if not count[-1]:
            continue
        name = names[judged.document[start]]
        pieces = max(1, round(int(count[-1]) / PIECE))
        cuts = np.searchsorted(count, np.arange(1, pieces) * count[-1] / pieces) + 1
        bounds = start + np.unique([0, *cuts, stop - start])
        for number, (first, end) in enumerate(itertools.pairwise(bounds)):
            if stay[first:end].any():
                place = int(judged.place[first])
                size = int(judged.place[end - 1] + judged.size[end - 1]) - place
                key = _key(source.name, name, number)
                words = int((judged.words[first:end] * stay[first:end]).sum())
                yield Piece(key, part, place, size, stay[first:end], words)


def _write(pieces: list[Piece], parts: list[Path], output: Path, check: Check) -> str:
    """Write the pieces in order; the SHA-256 of the file."""
    digest = hashlib.sha256()
    aside = output.with_suffix(f".{os.getpid()}.tmp")
    files = [part.open("rb") for part in parts]
    try:
        with aside.open("wb") as out:
            for number, piece in enumerate(
                tqdm(pieces, desc=output.stem, unit=" pieces")
            ):
                file = files[piece.part]
                file.seek(piece.place)
                lines = file.read(piece.bytes).split(b"\n")
                text = b"".join(
                    line + b"\n" for line, stays in zip(lines, piece.stay) if stays
                )
                text = b"\n" + text if number else text
                digest.update(text)
                out.write(text)
        check(output.stem, digest.hexdigest())
        os.replace(aside, output)
    finally:
        for file in files:
            file.close()
        aside.unlink(missing_ok=True)
    return digest.hexdigest()


def _report(
    sources: tuple[Source, ...], reports: list[dict[str, Any]], digest: str
) -> dict[str, Any]:
    total = sum(report["words"] for report in reports)
    genres: dict[str, int] = {}
    for source, report in zip(sources, reports):
        genres[source.genre] = genres.get(source.genre, 0) + report["words"]
    dropped = {
        key: sum(report[key] for report in reports)
        for key in reports[0]
        if key not in ("words", "documents")
    }
    return {
        "words": total,
        "sha256": digest,
        "genres": {
            genre: {"words": words, "share": round(words / total, 4)}
            for genre, words in genres.items()
        },
        "all sources": dropped,
        "sources": {
            source.name: {"genre": source.genre, "licence": source.licence, **report}
            for source, report in zip(sources, reports)
        },
    }
