"""`spacy elmo benchmark`: the speed of each setting, and what lower precision costs.

The benchmarks that are run from a clone of the repository (`benchmarks/README.md`) take
their clock and their made-up text from this module.
"""

import copy
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from tqdm import tqdm
from wasabi import msg

from .group import AsJson, app, clear_errors

if TYPE_CHECKING:
    from ..bilm.bilm import BiLM

Sentences = list[list[str]]
Run = Callable[[], float]  # does some work, and returns how many units it was

MODEL = "Model folder, a name that ships, or a published size: small, medium, original"
TEXT = "A folder that 'prepare' made; made-up text if none is given"
MADE_UP_WORDS = 50_000
SENTENCE_TOKENS = 20  # of made-up text, and of the sentences whose latency is measured
LATENCY_RUNS = 40
SCORES = ("tag_acc", "pos_acc", "ents_f", "dep_las")

benchmark_app = typer.Typer(
    help="Measure the speed and the quality of settings.", no_args_is_help=True
)
app.add_typer(benchmark_app, name="benchmark")


@benchmark_app.command("inference")
@clear_errors()
def inference_cli(
    text: Path | None = typer.Argument(None, help=TEXT),
    model: list[str] = typer.Option(
        ["small", "medium", "original", "en_elmo_sm"], "--model", "--size", help=MODEL
    ),
    batch_size: list[int] = typer.Option([1, 32, 64, 128], help="Sentences at once"),
    threads: list[int] = typer.Option([1, 2], help="CPU threads"),
    tokens: int = typer.Option(4_000, help="Tokens of the text that are read"),
    rounds: int = typer.Option(3, help="Times each setting is measured, in turn"),
    as_json: AsJson = False,
) -> None:
    """Measure tokens/s from sentences to layers by model, threads, batch size and
    precision, and the latency of single sentences (cold: no token was read before)."""
    sentences = read_sentences(text, tokens)
    speeds: list[dict[str, Any]] = []
    latencies: list[dict[str, Any]] = []
    for name, n in tqdm(list(product(model, threads)), leave=False):
        settings: dict[str, Any] = {"model": name, "threads": n}
        with torch_threads(n):
            bilms = encoders(load_model(name))
            for size in batch_size:
                runs = {
                    kind: partial(encode_all, bilm, sentences, size)
                    for kind, bilm in bilms.items()
                }
                speeds.append({**settings, "batch": size, **in_turn(runs, rounds)})
            latencies.append({**settings, **latency(bilms, sentences)})
    show({"tokens/s": speeds, "milliseconds of 20 tokens": latencies}, as_json)


@benchmark_app.command("precision")
@clear_errors()
def precision_cli(
    pipeline: Path = typer.Argument(..., help="Trained pipeline with an elmo"),
    corpus: Path = typer.Argument(..., help="Annotated .spacy file"),
    as_json: AsJson = False,
) -> None:
    """Measure what half precision and 8 bits cost a trained pipeline: errors of its
    vectors in units of their root mean square, and its scores."""
    show({"precision": compare_precisions(pipeline, corpus)}, as_json)


def show(tables: Mapping[str, Sequence[Mapping[str, Any]]], as_json: bool) -> None:
    """Print tables, each a list of rows by column, and what they were measured on."""
    if as_json:
        typer.echo(json.dumps({**tables, "machine": machine()}))
        return
    for title, rows in tables.items():
        msg.divider(title)
        cells = [[_cell(value) for value in row.values()] for row in rows]
        msg.table(cells, header=list(rows[0]), divider=True)
    msg.info(machine())


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return "-" if value is None else str(value)


# -- what is read, and by which model ---------------------------------------------


def load_model(name: str) -> "BiLM":
    """Return a model by its folder or shipped name, or a random one of a published
    size. Raises as `BiLM.load`."""
    from ..bilm.bilm import BiLM
    from ..bilm.config import PUBLISHED
    from ..models import find

    return BiLM.random(PUBLISHED[name]) if name in PUBLISHED else BiLM.load(find(name))


def read_sentences(folder: Path | None, n_tokens: int) -> Sentences:
    """Return the first sentences of a prepared text, or of made-up text."""
    from ..text.corpus import BOS_ID, EOS_ID
    from ..text.shards import open_corpus

    if folder is None:
        return made_up_sentences(made_up_words(MADE_UP_WORDS), n_tokens)
    corpus = open_corpus(folder)
    sentences: Sentences = []
    for i in corpus.forward.read(0, n_tokens).tolist():
        if i == BOS_ID:
            sentences.append([])
        elif i != EOS_ID:
            sentences[-1].append(corpus.words[i])
    return sentences


def made_up_words(n_words: int, seed: int = 0) -> list[str]:
    """Return different words by falling frequency, as long as those of English:
    frequent ones are short."""
    import numpy as np

    rng = np.random.default_rng(seed)
    mean = 3.0 + 0.9 * np.log10(np.arange(2 * n_words + 100) + 1)  # some are alike
    lengths = np.clip(rng.normal(mean, 2), 1, 20).astype(int)
    ends = np.cumsum(lengths)
    letters = rng.integers(97, 123, int(ends[-1]), dtype=np.uint8).tobytes().decode()
    words = (letters[end - n : end] for end, n in zip(ends, lengths))
    return list(dict.fromkeys(words))[:n_words]


def made_up_sentences(words: Sequence[str], n_tokens: int, seed: int = 0) -> Sentences:
    """Return sentences of 20 tokens in which words are as often new as in English:
    log-uniform in their rank."""
    import numpy as np

    random = np.random.default_rng(seed).random(n_tokens - n_tokens % SENTENCE_TOKENS)
    ranks = np.minimum(np.exp(random * np.log(len(words) + 1)) - 1, len(words) - 1)
    rows = ranks.astype(int).reshape(-1, SENTENCE_TOKENS)
    return [[words[rank] for rank in row] for row in rows]


# -- what is measured -------------------------------------------------------------


def in_turn(runs: Mapping[str, Run], rounds: int) -> dict[str, float]:
    """Return units a second of each run: the median of rounds in which all have their
    turn, so that other work on the machine slows all of them alike. One round more is
    made first, and not counted."""
    import torch

    on_gpu = torch.cuda.is_initialized()
    speeds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            started = time.perf_counter()
            units = run()
            if on_gpu:
                torch.cuda.synchronize()
            if number:
                speeds[name].append(units / (time.perf_counter() - started))
    return {name: statistics.median(found) for name, found in speeds.items()}


@contextmanager
def torch_threads(n: int) -> Iterator[None]:
    """Let torch use n CPU threads, and as many as before afterwards."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def machine() -> str:
    """Return the hardware and versions that a figure was measured with."""
    import os
    import platform

    import torch

    from ..pretrain.card import processor

    gpu = f"{torch.cuda.get_device_name()}, " if torch.cuda.is_initialized() else ""
    return (
        f"{gpu}{processor()}, {os.cpu_count()} cores, {torch.get_num_threads()} "
        f"threads, torch {torch.__version__}, Python {platform.python_version()}"
    )


def encode_all(bilm: "BiLM", sentences: Sentences, batch_size: int) -> float:
    """Encode sentences in batches. Returns the number of their tokens."""
    for start in range(0, len(sentences), batch_size):
        bilm.encode(sentences[start : start + batch_size])
    return float(sum(map(len, sentences)))


def precisions() -> list[str]:
    """Return the precisions that this processor has instructions for."""
    import torch

    from ..bilm.kernels.choose import check_precision
    from ..bilm.kernels.processor import PRECISIONS

    found: list[str] = []
    for precision in PRECISIONS:
        try:
            check_precision(precision, torch.device("cpu"))
        except ValueError:
            continue
        found.append(precision)
    return found


def encoders(bilm: "BiLM") -> dict[str, "BiLM"]:
    """Return copies of a model that differ in settings: "cold" keeps no token vectors,
    "warm" those of all tokens, the others are cold ones of lower precision."""
    from ..bilm.token_cache import TokenCache

    found = {}
    for name in ("cold", "warm", *precisions()[1:]):
        found[name] = copy.deepcopy(bilm)
        found[name].token_cache = TokenCache(1 << 20 if name == "warm" else 0)
        if name not in ("cold", "warm"):
            found[name].set_precision(name)  # type: ignore[arg-type]
    return found


def latency(bilms: Mapping[str, Any], sentences: Sentences) -> dict[str, float]:
    """Return milliseconds (median and 95th percentile) of sentences of 20 tokens, read
    one by one, by all models in turn."""
    words = [word for sentence in sentences for word in sentence]
    words *= -(-SENTENCE_TOKENS // len(words))
    starts = range(0, len(words) - SENTENCE_TOKENS + 1, SENTENCE_TOKENS)
    single = [[words[i : i + SENTENCE_TOKENS]] for i in starts][:LATENCY_RUNS]
    times: dict[str, list[float]] = {name: [] for name in bilms}
    for number, sentence in enumerate([*single, *single]):  # the first half warms up
        for name, bilm in bilms.items():
            started = time.perf_counter()
            bilm.encode(sentence)
            if number >= len(single):
                times[name].append(1000 * (time.perf_counter() - started))
    found = {name: statistics.median(ms) for name, ms in times.items()}
    tail = {f"{k}, p95": sorted(ms)[int(0.95 * len(ms))] for k, ms in times.items()}
    return found | tail


def compare_precisions(pipeline: Path, corpus: Path) -> list[dict[str, Any]]:
    """Return a row for each precision of this processor: the mean and the largest
    difference of the layers of a pipeline's `elmo` from float32, in units of their root
    mean square, and the pipeline's scores on a .spacy file."""
    import numpy as np
    import spacy
    from spacy.training import Corpus

    rows: list[dict[str, Any]] = []
    exact: Any = None
    for precision in precisions():
        config = {"components.elmo.model.precision": precision}
        nlp = spacy.load(pipeline, config=config)
        examples = list(Corpus(corpus)(nlp))
        elmo: Any = nlp.get_pipe("elmo")
        docs = elmo.pipe(example.reference for example in examples)
        layers = np.concatenate([doc._.elmo.layers.ravel() for doc in docs])
        exact = layers if exact is None else exact
        errors = abs(layers - exact) / np.sqrt(np.mean(exact**2))
        row = {"precision": precision, "mean error": float(errors.mean())}
        row["largest error"] = float(errors.max())
        scores = nlp.evaluate(examples)
        rows.append(row | {name: scores[name] for name in SCORES if scores.get(name)})
    return rows
