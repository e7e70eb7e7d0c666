"""spacy elmo benchmark: how fast each setting reads a text on this machine."""

import os
import statistics
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import typer

from ..errors import Errors
from ..output import msg, write_json
from . import options
from .group import app, load_bilm

if TYPE_CHECKING:
    from ..bilm import BiLM

BATCH_SIZE = 64  # sentences
ALONE = 20  # sentences that are read one by one
NAMES = ("tokens/s, new words", "tokens/s, known words", "ms a sentence")


@app.command("benchmark")
def benchmark_cli(
    model: options.AnyModel,
    text: options.Text,
    threads: list[int] = typer.Option([1], min=1, help="CPU threads"),
    max_tokens: int = typer.Option(
        2000, min=1, help="Tokens of the text that are read"
    ),
    rounds: int = typer.Option(3, min=1, help="Times that each setting is measured"),
    kind: options.Kind = None,
    lang: options.Lang = "en",
    tokenizer: options.Tokenizer = "spacy",
    gpu_id: options.GpuId = -1,
    as_json: options.AsJson = False,
) -> None:
    """Measure the speed of each precision and number of threads on a text.

    Each row has the tokens per second in batches of 64 sentences, with new and with
    known words, and the milliseconds of a single sentence. Each round measures all
    settings, and the median of the rounds is shown.
    """
    import torch

    from ..machine import describe_cpu
    from ..text import read_sentences

    bilm, _ = load_bilm(model, gpu_id)
    read = read_sentences(
        text, kind=kind, lang=lang, tokenizer=tokenizer, form=bilm.form
    )
    sentences: list[list[str]] = []
    n_tokens = 0
    for sentence in read:
        sentences.append(list(sentence))
        n_tokens += len(sentence)
        if n_tokens >= max_tokens:
            break
    if not sentences:
        raise Errors.EL033()
    found: dict[tuple[int, Any], list[tuple[float, ...]]]
    found = {(n, precision): [] for n in threads for precision in _precisions(bilm)}
    before = torch.get_num_threads()
    for _ in range(rounds):
        for (n, precision), times in found.items():
            torch.set_num_threads(n)
            bilm.set_precision(precision)
            times.append(_measure(bilm, sentences))
    torch.set_num_threads(before)
    rows = []
    for (n, precision), times in found.items():
        medians = map(statistics.median, zip(*times))
        rows.append({"threads": n, "precision": precision, **dict(zip(NAMES, medians))})
    where = torch.cuda.get_device_name(gpu_id) if gpu_id >= 0 else describe_cpu()
    machine = f"{where}, {os.cpu_count()} cores, torch {torch.__version__}"
    if as_json:
        write_json({"rows": rows, "machine": machine})
        return
    cells = [
        (str(row["threads"]), row["precision"], *(f"{row[n]:,.1f}" for n in NAMES))
        for row in rows
    ]
    msg.table(cells, header=list(rows[0]), divider=True)
    msg.info(machine)


def _precisions(bilm: "BiLM") -> list[Any]:
    """Return the precisions in which a biLM can compute here."""
    from ..machine import PRECISIONS

    found = []
    for precision in PRECISIONS:
        with suppress(ValueError):
            bilm.set_precision(precision)
            found.append(precision)
    return found


def _measure(bilm: "BiLM", sentences: list[list[str]]) -> tuple[float, float, float]:
    """Return tokens per second of words that are new, and of words that are known, and
    the milliseconds of a sentence alone."""

    def seconds(batches: Iterable[list[list[str]]]) -> float:
        started = time.perf_counter()
        for batch in batches:
            bilm.encode(batch)
        return time.perf_counter() - started

    starts = range(0, len(sentences), BATCH_SIZE)
    batches = [sentences[i : i + BATCH_SIZE] for i in starts]
    alone = [[sentence] for sentence in sentences[:ALONE]]
    n_tokens = sum(map(len, sentences))
    seconds(batches[:1])  # which prepares the weights
    bilm.token_cache.clear()
    new, known = n_tokens / seconds(batches), n_tokens / seconds(batches)
    return new, known, 1000 * seconds(alone) / len(alone)
