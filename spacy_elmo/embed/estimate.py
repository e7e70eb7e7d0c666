"""Estimates of a plan from a small sample: tokens, bytes on the disk and time."""

import math
import shutil
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import Errors
from .keep import Kept
from .model import Encoder
from .plan import Plan
from .shard import HEADER_BYTES

SAMPLES, SAMPLE_BYTES = 8, 1 << 14  # places of an input that are read, bytes of each
TIMED_TOKENS = 1000  # tokens that are encoded to estimate the time of all
# Bytes beside the vectors: of a token its text, offsets in it and in the source; of a
# sentence one offset; of a document its id, position and offsets.
TOKEN_BYTES, SENTENCE_BYTES, DOCUMENT_BYTES = 22, 8, 36


def read_sample(plan: Plan) -> tuple[list[list[str]], int, float]:
    """Read some text at a few places, spread evenly over the inputs. Return its
    sentences, the number of documents, and the bytes that it takes in the inputs."""
    sentences: list[list[str]] = []
    documents, n_bytes, reader = 0, 0.0, plan.reader()
    n_places = min(SAMPLES, plan.n_jobs)
    for place in range(n_places):
        number = place * plan.n_jobs // n_places
        shard = next(plan.ranges(number))
        with closing(plan.open_input(number)) as source:
            end = min(shard.end, shard.start + SAMPLE_BYTES)
            for document in reader.documents(source, shard.start, end):
                documents += document.begins
                sentences += [sentence.tokens for sentence in document.sentences]
            n_bytes += source.packed_size
    return sentences, documents, n_bytes


def estimate(plan: Plan, encoder: Encoder) -> dict[str, Any]:
    """Return the tokens, bytes and speed that a sample suggests for a plan."""
    sentences, documents, sample_bytes = read_sample(plan)
    timed: list[list[str]] = []
    for sentence in sentences:
        if sum(map(len, timed)) < TIMED_TOKENS:
            timed.append(sentence)
    encoder(timed[:5])  # the first call prepares the weights
    started = time.perf_counter()
    encoder(timed)
    seconds = time.perf_counter() - started
    n_bytes = sum(plan.job_bytes(number) for number in range(plan.n_jobs))
    times = n_bytes / max(1.0, sample_bytes)
    found = {
        "tokens": round(times * sum(map(len, sentences))),
        "sentences": round(times * len(sentences)),
        "documents": round(times * documents),
        "input_bytes": n_bytes,
        "tokens_per_second": round(sum(map(len, timed)) / seconds),
    }
    return {**found, "bytes": size_on_disk(plan.kept, found, plan.n_jobs)}


def size_on_disk(kept: Kept, counts: dict[str, Any], n_shards: int) -> int:
    """Return the bytes on the disk of so many tokens, sentences and documents."""
    names = "tokens", "sentences", "documents"
    tokens, sentences, documents = (counts[name] for name in names)
    rows = {"token": tokens, "sentence": sentences, "doc": documents}[kept.pool]
    size = rows * kept.row_bytes + documents * DOCUMENT_BYTES + n_shards * HEADER_BYTES
    size += sentences * SENTENCE_BYTES if kept.pool != "doc" else 0
    return int(size + (tokens * TOKEN_BYTES if kept.pool == "token" else 0))


def refuse_without_room(
    plan: Plan, output: Path, share: float = 1.0, n_bytes: int = 0
) -> None:
    """Check that the disk has room for a plan.

    Args:
        plan: The plan.
        output: Its folder.
        share: Share of the plan that is to be made.
        n_bytes: Bytes of it that are there already.

    Raises:
        OSError: [EL203] There is too little room; the message has options that fit.
    """
    existing = next(p for p in [output, *output.resolve().parents] if p.exists())
    free = shutil.disk_usage(existing).free
    needed = share * plan.estimate["bytes"] - n_bytes
    if needed <= free:
        return
    smaller, one = [], replace(plan.kept, layers=plan.kept.layers[:1])
    for pool in ("token", "sentence", "doc"):
        for dtype in ("float16", "int8"):
            kept = replace(one, dtype=dtype, pool=pool)
            size = share * size_on_disk(kept, plan.estimate, plan.n_jobs)
            if size <= free:
                options = f"--layers average --save-precision {dtype} --pool {pool}"
                smaller.append(f"{options} ({readable(size)})")
    raise Errors.EL203(
        path=output,
        needed=readable(needed),
        free=readable(free),
        smaller="; ".join(smaller) or "none",
    )


def readable(n_bytes: float) -> str:
    """Return a number of bytes for people, such as "2.07 TB"."""
    power = min(5, int(math.log10(max(1.0, n_bytes)) // 3))
    return f"{n_bytes / 1000**power:,.3g} {' kMGTP'[power].strip()}B"
