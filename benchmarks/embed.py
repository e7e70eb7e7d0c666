"""`spacy elmo embed`: speed beside the biLM alone, memory, starting again, sizes."""

import statistics
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import psutil
import torch
import typer

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.embed import Options, make_plan, run, verify
from spacy_elmo.embed.folder import SHARDS
from spacy_elmo.embed.model import Kept
from spacy_elmo.embed.plan import Plan, read_plan
from spacy_elmo.embed.planning import readable, size_on_disk
from spacy_elmo.embed.shard import read_shard
from spacy_elmo.text import Reading, TextFile

from .speed import (
    Sentences,
    load_model,
    made_up_sentences,
    made_up_words,
    show,
)
from .timing import MODEL

WORDS = 20_000
PARTS = ["speed", "memory", "starting", "sizes"]
BLOCK = 1_000_000  # tokens of made-up text, which is written as often as it takes
SHARDS_TIMED = 6  # the first of each worker fills its caches, and is left out
MANY_SHARDS, TERABYTE = 100_000, 10**12
READING = Reading()  # it cuts 37 of 200,000 words, which encode reads whole
SEPARATED = Reading(tokenizer="whitespace", split=False)
TINY = BiLMConfig(
    hidden_dim=16, projection_dim=16, n_layers=1, char_dim=16, filters=((1, 16),)
)
Rows = list[dict[str, Any]]


def write_text(path: Path, sentences: Sentences) -> str:
    path.write_text("".join(f"{' '.join(words)}\n" for words in sentences))
    return str(path)


def planned(model: str, text: str, output: Path, **options: Any) -> Path:
    make_plan(model, [text], output, Options(reading=READING, **options))
    return output


def steady(output: Path, n_workers: int) -> float:
    """Return tokens/s from when each worker has made a shard to the last."""
    found = sorted((path.stat().st_mtime, path) for path in (output / SHARDS).iterdir())
    counts = [read_shard(path).header["counts"]["tokens"] for _, path in found]
    first = n_workers - 1
    return sum(counts[n_workers:]) / (found[-1][0] - found[first][0])


def speed(
    model: str, folder: Path, n_tokens: int, rounds: int, *, with_ray: bool
) -> Rows:
    """Measure `BiLM.encode`, and runs of the same text, float16, in turn;
    rates are medians."""
    torch.set_num_threads(1)
    sentences = made_up_sentences(made_up_words(WORDS), n_tokens)
    text = write_text(folder / "text.txt", sentences)
    size = Path(text).stat().st_size / 2**20
    bilm = load_model(model)
    runs: dict[str, dict[str, Any]] = {"1 process": {}, "2 processes": {"processes": 2}}
    if with_ray:
        runs["Ray, 2 workers"] = {"processes": 2, "ray": "local"}
    rates: dict[str, list[float]] = defaultdict(list)
    for number in range(rounds):
        rates["BiLM.encode"].append(encode_rate(bilm, sentences))
        for name, how in runs.items():
            options = {"dtype": "float16", "shard_mb": size / SHARDS_TIMED}
            output = planned(model, text, folder / f"{name} {number}", **options)
            run(output, **how)
            rates[name].append(steady(output, how.get("processes", 1)))
            assert number or not verify(output, sample=0.01).problems
    found = {name: statistics.median(some) for name, some in rates.items()}
    return [
        {
            "run": name,
            "tokens/s": rate,
            "of encode": rate / found["BiLM.encode"],
            "of 1 process": rate / found["1 process"],
        }
        for name, rate in found.items()
    ]


def ray_alone() -> Rows:
    """Measure what Ray's own processes take, of a machine with two cores for it."""
    ray: Any = import_module("ray")
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    time.sleep(5)
    processes = psutil.Process().children(recursive=True)
    taken = sum(process.memory_full_info().uss for process in processes)
    ray.shutdown()
    return [{"Ray's processes": len(processes), "memory": readable(taken)}]


def encode_rate(bilm: BiLM, sentences: Sentences) -> float:
    """Return tokens/s of the biLM alone, after as much text as in a worker's first
    shard."""

    def encode(sentences: Sentences) -> None:
        for first in range(0, len(sentences), 800):  # as many tokens as a block
            bilm.encode(sentences[first : first + 800])

    bilm.token_cache.clear()
    before = len(sentences) // SHARDS_TIMED
    encode(sentences[:before])
    counted = sentences[before:]
    return sum(map(len, counted)) / timed(lambda: encode(counted))


class Memory:
    """The most memory that this process takes, looked at all the time."""

    def __init__(self) -> None:
        self._process, self._stop = psutil.Process(), threading.Event()
        self.most = self.now()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def now(self) -> int:
        return int(self._process.memory_info().rss)

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            self.most = max(self.most, self.now())

    def __enter__(self) -> "Memory":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()


def memory(
    model: str, folder: Path, n_tokens: int, pool: str, reading: Reading = READING
) -> Rows:
    """Measure memory above a process with the model loaded, at its half and in all: of
    short documents, and of one document that is as long as all of them."""
    rows = []
    sentences = made_up_sentences(made_up_words(WORDS), min(n_tokens, BLOCK))
    n_tokens -= n_tokens % sum(map(len, sentences))
    for what, end in {"short documents": "\n", "one document": " "}.items():
        block = "".join(f"{' '.join(words)}{end}" for words in sentences)
        text = folder / f"{what}.txt"
        with text.open("w") as file:
            file.writelines(block for _ in range(0, n_tokens, BLOCK))
        options = Options(reading=reading, pool=pool)
        output = folder / f"memory of {what}"
        plan, encoder = make_plan(model, [str(text)], output, options)
        with Memory() as found:
            before = found.most
            run(output, encoder=encoder, share=(1, 2))
            half = found.most
            run(output, encoder=encoder)
        row = {"text": what, "tokens": n_tokens, "shards": plan.n_jobs}
        above = {"first half": half - before, "all": found.most - before}
        rows.append({**row, **{name: readable(n) for name, n in above.items()}})
        text.unlink()
    return rows


def sizes(folder: Path, n_tokens: int) -> Rows:
    """Compare what `size_on_disk` calculates with the files of so many tokens, whose
    vectors are as wide as those of the models that ship."""
    BiLM.random(TINY.model_copy(update={"projection_dim": 256})).save(folder / "wide")
    sentences = made_up_sentences(made_up_words(WORDS), n_tokens)
    paragraphs = [
        list(chain(*sentences[i : i + 10])) for i in range(0, len(sentences), 10)
    ]
    text = write_text(folder / "million.txt", paragraphs)
    rows = []
    for pool, dtype in [("token", "float16"), ("token", "int8"), ("doc", "float32")]:
        options = {"pool": pool, "dtype": dtype}
        output = planned(str(folder / "wide"), text, folder / pool / dtype, **options)
        run(output)
        plan = read_plan(output)
        files = list((output / SHARDS).iterdir())
        counts: Counter[str] = Counter()
        for path in files:
            counts.update(read_shard(path).header["counts"])
        found = sum(path.stat().st_size for path in files)
        expected = size_on_disk(plan.kept, counts, len(files))
        what = {"pool": pool, "dtype": dtype, "tokens": counts["tokens"]}
        bytes_of = {"calculated": readable(expected), "files": readable(found)}
        rows.append({**what, **bytes_of, "ratio": found / expected})
    return rows


def timed(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def starting(model: str, folder: Path) -> Rows:
    """Measure a plan of many shards of which one is missing, and one of a terabyte."""
    text = write_text(folder / "a.txt", made_up_sentences(made_up_words(100), 1000))
    some = read_plan(planned(model, text, folder / "some"))
    source = some.inputs[0]
    many = replace(some, inputs=(replace(source, size=MANY_SHARDS * some.shard_bytes),))
    many.save(folder / "many")
    for number in range(1, MANY_SHARDS):
        (folder / "many" / SHARDS / next(many.ranges(number)).name).touch()
    again = timed(lambda: read_plan(folder / "many").jobs_left(folder / "many"))
    size = TERABYTE // MANY_SHARDS
    inputs = tuple(
        TextFile(f"/text/{n:06d}.txt", "text", "", size, n) for n in range(MANY_SHARDS)
    )
    large: Plan = replace(some, inputs=inputs)
    seconds = timed(lambda: large.save(folder / "large"))
    stored = readable((folder / "large" / "plan.json").stat().st_size)
    return [
        {"what": "100,000 shards, 1 missing", "seconds": again, "plan.json": None},
        {"what": "1 TB in 100,000 files", "seconds": seconds, "plan.json": stored},
    ]


def on_paper(bilm: BiLM, tokens_per_second: float) -> Rows:
    """Calculate bytes of each choice and core hours for 10^9 and 10^12 tokens."""
    rows = []
    for weights, layers in (((1.0,), "average"), (None, "all")):
        for pool in ("token", "sentence", "doc"):
            for dtype in ("float32", "float16", "int8"):
                every = tuple(range(bilm.config.n_layers + 1))
                kept = Kept(weights, every, bilm.config.width, dtype, pool)
                row: dict[str, Any] = {"layers": layers, "pool": pool, "dtype": dtype}
                for power in (9, 12):
                    n = 10**power
                    counts = {"tokens": n, "sentences": n // 20, "documents": n // 200}
                    row[f"10^{power}"] = readable(
                        size_on_disk(kept, counts, n // 10**6)
                    )
                    row[f"hours 10^{power}"] = n / tokens_per_second / 3600
                rows.append(row)
    return rows


def main(
    model: str = typer.Option("en_elmo_sm", help=f"{MODEL}, or 'tiny'"),
    part: list[str] = typer.Option(PARTS, help="What is measured"),
    tokens: int = typer.Option(192_000, help="Tokens of the made-up text"),
    rounds: int = typer.Option(3, help="Times that each speed is measured, in turn"),
    memory_tokens: int = typer.Option(3_000_000, help="Tokens of the test of memory"),
    pool: str = typer.Option("doc", help="What has a vector in the test of memory"),
    separated: bool = typer.Option(False, help="Do without a tokenizer in that test"),
    ray: bool = typer.Option(True, help="Run on a local Ray too"),
    as_json: bool = typer.Option(False, "--json", help="Print JSON"),
) -> None:
    tables: dict[str, Rows] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if model == "tiny":
            model = str(folder / model)
            BiLM.random(TINY).save(model)
        if "speed" in part:
            tables["speed"] = speed(model, folder, tokens, rounds, with_ray=ray)
            bilm, rate = load_model(model), tables["speed"][1]["tokens/s"]
            tables["on paper"] = on_paper(bilm, rate)
            if ray:
                tables["Ray alone"] = ray_alone()
        if "memory" in part:
            reading = SEPARATED if separated else READING
            tables["memory"] = memory(model, folder, memory_tokens, pool, reading)
        if "starting" in part:
            tables["starting"] = starting(model, folder)
        if "sizes" in part:
            tables["sizes"] = sizes(folder, 1_000_000)
        show(tables, as_json)


if __name__ == "__main__":
    typer.run(main)
