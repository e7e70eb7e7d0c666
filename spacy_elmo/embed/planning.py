"""Making a plan: the inputs, the model, what is kept, and an estimate."""

import io
import math
import shutil
import sys
import time
from collections.abc import Collection, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

import numpy as np
import spacy

from ..bilm import BiLM
from ..errors import Errors
from ..files import named_path, new_checksum, publish
from ..text import Reading, TextFile, describe, files_of, hash_of_pipeline
from .folder import SHARDS, Workspace, names_of_shards, writing
from .model import (
    DTYPES,
    Computing,
    Encoder,
    Kept,
    check_setting,
    load_model,
    parse_layers,
)
from .plan import PLAN, STORED, Plan, kernels_asked_for, read_plan, versions
from .shard import HEADER_BYTES

STDIN, STDIN_FILE, MB = "-", "stdin-", 1 << 20
COUNTS = range(1, 1 << 50)
BLOCK_BYTES = 16 << 20  # memory for the vectors of a block
SAMPLES, SAMPLE_BYTES = 8, 1 << 14  # places of an input that are read, bytes of each
TIMED_TOKENS = 1000  # tokens that are encoded to estimate the time of all
# Bytes beside the vectors: of a token its text, offsets in it and in the source; of a
# sentence one offset; of a document its id, position and offsets.
TOKEN_BYTES, SENTENCE_BYTES, DOCUMENT_BYTES = 22, 8, 36


@dataclass(frozen=True)
class Options:
    """The options of a plan.

    Attributes:
        reading: How text is split into tokens and sentences.
        computing: How vectors are computed.
        mix_of: The component of a pipeline whose mix of layers is used; None for the
            mix of `elmo` itself.
        kind: Kind of all inputs, such as "text" or "conllu"; None to tell the kind of
            each from its file name.
        layers: "average", "top", "all", numbers such as "0,2", or "mix" for the mix of
            a pipeline.
        dtype: "float32", "float16", or "int8" with a scale for each vector.
        pool: "token" for a vector of each token; "sentence" or "doc" for means.
        shard_mb: Megabytes of text for each shard.
        limit_mb: Megabytes of each input that are read; None for all.
        one_per_file: Whether a file of plain text is one document. Its id is the name
            of the file, or the path below the folder that is given.
    """

    reading: Reading = field(default_factory=Reading)
    computing: Computing = field(default_factory=Computing)
    mix_of: str | None = None
    kind: str | None = None
    layers: str = "average"
    dtype: str = "float32"
    pool: str = "token"
    shard_mb: float = 4.0
    limit_mb: float | None = None
    one_per_file: bool = False


def make_plan(
    model: str,
    inputs: Sequence[str],
    output: str | Path,
    options: Options | None = None,
    *,
    gpu_id: int = 0,
) -> tuple[Plan, Encoder]:
    """Return the plan of a folder and its encoder. Write the plan if there is none.

    Args:
        model: Name of a shipped model, folder or file of weights, or a pipeline.
        inputs: Files, folders of files, or "-" for standard input.
        output: The folder of the plan.
        options: All other options; None for the defaults.
        gpu_id: Number of the GPU, if the device is "cuda".

    Raises:
        ValueError: [EL201] The folder has another plan. [EL206] There is no text.
            [EL032, EL151, EL207, EL215] A setting has a value that is not allowed.
        OSError: [EL203] The disk has too little room. [EL013] The folder can't be
            written. [EL030] An input can't be read.
    """
    output, names = named_path(output), [inputs] if isinstance(inputs, str) else inputs
    with ExitStack() as undo:
        bilm, plan = _plan(model, names, output, options or Options(), undo)
        if not (output / PLAN).exists():
            encoder = plan.encoder(output, bilm, gpu_id=gpu_id)
            measured = replace(plan, estimate=estimate(plan, encoder))
            refuse_without_room(measured, output, range(plan.n_jobs))
            measured.save(output)
        found = read_plan(output)
        if differs := found.differences(plan):
            raise Errors.EL201(path=output, differs=", ".join(differs))
        undo.pop_all()
    return found, found.encoder(output, bilm, gpu_id=gpu_id)


def _plan(
    model: str, inputs: Sequence[str], output: Path, options: Options, undo: ExitStack
) -> tuple[BiLM, Plan]:
    """Return the model, and the plan without its estimate. `undo` removes the standard
    input that is written for the plan."""
    reading, computing = options.reading, options.computing
    shard_bytes = _bytes("shard_mb", options.shard_mb, range(256, 1024 * MB + 1))
    limit = None
    if options.limit_mb is not None:
        limit = _bytes("limit_mb", options.limit_mb, COUNTS)
    check_setting("window", reading.window, COUNTS)
    for name in ("threads", "batch_tokens", "block_tokens"):
        check_setting(name, getattr(computing, name), COUNTS)
    bilm, mix = load_model(model, options.mix_of)
    if options.layers == "mix" and mix is not None and mix.kind == "concat":
        raise Errors.EL215(name=mix.component, source=model)
    n_layers, width = bilm.config.n_layers + 1, bilm.config.width
    weights, layers, norm = parse_layers(options.layers, n_layers, mix)
    kept = Kept(weights, layers, width, options.dtype, options.pool, None, norm)
    if reading.pipeline is not None:
        where = _absolute(reading.pipeline)
        nlp = spacy.load(where)
        if output.resolve().is_relative_to(nlp.path.resolve()):
            known = "a folder outside of the pipeline, whose files are in its plan"
            raise Errors.EL207(name="output", found=output, known=known)
        files = hash_of_pipeline(nlp)
        reading = replace(reading, pipeline=where, pipeline_hash=files)
    fits = BLOCK_BYTES // (4 * math.prod(kept.row_shape))
    computing = replace(
        computing,
        exact=computing.device == "cpu",
        block_tokens=max(1, min(computing.block_tokens, fits)),
        kernels=kernels_asked_for(),
    )
    return bilm, Plan(
        model=_absolute(model),
        mix_of=options.mix_of,
        fingerprint=bilm.fingerprint(),
        inputs=tuple(_inputs(inputs, output, options, undo)),
        reading=reading,
        kept=kept,
        computing=computing,
        sink=STORED,
        shard_bytes=shard_bytes,
        limit=limit,
        versions=versions(),
    )


def _bytes(name: str, megabytes: float, allowed: range) -> int:
    """Return megabytes as bytes. Raises ValueError [EL207] if they are not allowed."""
    is_finite = isinstance(megabytes, (int, float)) and math.isfinite(megabytes)
    if not is_finite or int(megabytes * MB) not in allowed:
        least, most = allowed[0] / MB, allowed[-1] / MB
        known = f"a number from {least:.6f} to {most:,.0f}, in megabytes"
        raise Errors.EL207(name=name, found=megabytes, known=known)
    return int(megabytes * MB)


def _absolute(name: str) -> str:
    """Return the absolute path of a folder or file. Another name stays as it is."""
    path = named_path(name)
    return str(path.resolve()) if path.exists() else name


def _inputs(
    inputs: Sequence[str], output: Path, options: Options, undo: ExitStack
) -> list[TextFile]:
    """Describe the inputs. Raises ValueError [EL206] if there is nothing to read."""
    if "" in inputs:  # it would be the working folder
        raise Errors.EL206()
    named = [
        _write_stdin(output, undo) if name == STDIN else Path(name) for name in inputs
    ]
    found = []
    for path, name in files_of(named, leave_out=output):
        document = name if options.one_per_file else None
        source = describe(path, options.kind, document=document, with_checksum=True)
        found.append(source)
    if not any(source.size for source in found):
        raise Errors.EL206()
    return found


def _write_stdin(output: Path, undo: ExitStack) -> Path:
    """Write standard input into the folder, under the hash of its bytes. If there is
    none, the file is empty. `undo` removes a file that was not there before, unless the
    plan of the folder reads it: another process may have made that plan meanwhile.
    Raises OSError [EL013] if it can't be written."""
    stream: IO[bytes] = sys.stdin.buffer if sys.stdin is not None else io.BytesIO()
    digest = new_checksum()
    with writing(output), Workspace(output) as workspace:
        temporary = workspace.folder / "stdin"
        with temporary.open("wb") as file:
            while block := stream.read(MB):
                digest.update(block)
                file.write(block)
        path = output / f"{STDIN_FILE}{digest.hexdigest()}.txt"
        if not path.exists():
            undo.callback(_remove_unless_planned, path)
        publish(temporary, path, replace=False)
    return path


def _remove_unless_planned(path: Path) -> None:
    plan = path.with_name(PLAN)
    if not (plan.exists() and path.name.encode() in plan.read_bytes()):
        path.unlink(missing_ok=True)


# -- the estimate ------------------------------------------------------------------


def estimate(plan: Plan, encoder: Encoder) -> dict[str, Any]:
    """Return the tokens, bytes and speed that a sample suggests for a plan: some text
    at a few places, spread evenly over the inputs."""
    sentences: list[list[str]] = []
    documents, sample_bytes, reader = 0, 0.0, plan.reader()
    n_places = min(SAMPLES, plan.n_jobs)
    for place in range(n_places):
        number = place * plan.n_jobs // n_places
        shard = next(plan.ranges(number))
        with closing(plan.open_input(number)) as source:
            end = min(shard.end, shard.start + SAMPLE_BYTES)
            for document in reader.documents(source, shard.start, end):
                documents += document.begins
                sentences += [sentence.tokens for sentence in document.sentences]
            sample_bytes += source.packed_size
    ends = accumulate(map(len, sentences))
    timed = [s for s, end in zip(sentences, ends) if end - len(s) < TIMED_TOKENS]
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
    row_bytes = np.dtype(DTYPES[kept.dtype]).itemsize * math.prod(kept.row_shape)
    row_bytes += 4 * math.prod(kept.row_shape[:-1]) if kept.dtype == "int8" else 0
    size = rows * row_bytes + documents * DOCUMENT_BYTES + n_shards * HEADER_BYTES
    size += sentences * SENTENCE_BYTES if kept.pool != "doc" else 0
    return int(size + (tokens * TOKEN_BYTES if kept.pool == "token" else 0))


def refuse_without_room(plan: Plan, output: Path, jobs: Collection[int]) -> None:
    """Check that the disk has room for the shards of some jobs that are missing. Raises
    OSError [EL203] if it has not; the message has options that fit."""
    existing = next(p for p in [output, *output.resolve().parents] if p.exists())
    free, share = shutil.disk_usage(existing).free, len(jobs) / max(1, plan.n_jobs)
    names, wanted = names_of_shards(output), set(jobs)
    mine = [output / SHARDS / name for name in names if int(name[:8]) in wanted]
    there = sum(path.stat().st_size for path in mine)
    needed = share * plan.estimate["bytes"] - there
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
