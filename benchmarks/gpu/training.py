"""Steps about training: waits, speed, resuming near the memory limit, NCCL."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.pretrain import OBJECTIVES, Training, made_up_text
from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.kernels.kernel import force
from spacy_elmo.bilm.objectives.adaptive import adaptive_softmax
from spacy_elmo.pretrain import checkpoint, perplexity
from spacy_elmo.pretrain.memory import Plan, available_memory
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.pretrain.workers import torch_settings
from spacy_elmo.text import Request, prepare

from ..speed import Run, in_turn, made_up_sentences, made_up_words
from .common import ROOT, SHIPPED, TINY, configs, waits, without_clips
from .runner import Context, Rows, Tables

N_STEPS = 20  # looked at for waits
# Memory that a process takes beside torch's own, for CUDA and its libraries.
CUDA_ITSELF = 1 << 30

CONFIG = """
[text]
train = ["{folder}/train"]
dev = ["{folder}/dev"]

[model]
hidden_dim = {hidden_dim}
projection_dim = {projection_dim}
filters = {filters}

[training]
batch_size = {batch_size}
unroll_steps = 20
epochs = 2
max_steps = {max_steps}
eval_every = 1000000
save_every = 10
log_every = 10
device = "{device}"

[training.objective]
@objectives = "spacy-elmo.AdaptiveSoftmax.v1"
cutoffs = [{cutoffs}]

[training.optimizer]
@optimizers = "spacy-elmo.Adam.v1"
"""


def syncs(context: Context) -> Tables:
    """Return where training steps and perplexity wait."""
    tables: Tables = {}
    config = TINY if context.tiny else SHIPPED
    corpus = made_up_text(100 if context.tiny else 5_000, 60_000)
    for objective in OBJECTIVES[:3]:
        for precision in ("float32", "bfloat16"):
            training = _training(objective, config, corpus, 8, precision, context)

            def steps(training: Training = training) -> None:
                for _ in range(3 if context.tiny else N_STEPS):
                    training.step()

            steps()
            title = f"{N_STEPS} steps, {objective}, {precision}"
            tables[title] = waits(steps, context.device)

    def evaluate() -> None:
        perplexity(training.model, corpus)

    tables["perplexity"] = waits(evaluate, context.device)
    return tables


def _training(
    objective: str,
    config: BiLMConfig,
    corpus: Any,
    batch_size: int,
    precision: str,
    context: Context,
) -> Training:
    settings = {"unroll_steps": 20, "precision": precision}
    device = torch.device(context.device)
    return Training(
        objective, config, corpus, batch_size=batch_size, device=device, **settings
    )


def steps_to_profile(context: Context) -> Iterator[tuple[str, float, Run]]:
    """Yield names, tokens and training steps: of the recipe of the English model."""
    config, words = (TINY, 100) if context.tiny else (SHIPPED, 50_000)
    on_gpu = ("tf32",) if context.device != "cpu" else ()
    for batch in (4,) if context.tiny else (64, 1024):
        corpus = made_up_text(words, 40 * batch * 20)
        for precision in (*on_gpu, "bfloat16"):
            training = _training("adaptive", config, corpus, batch, precision, context)
            yield f"{batch} streams, {precision}", batch * 20.0, training.step


def speeds(context: Context) -> Tables:
    """Return tokens/s by objective, vocabulary, clips, batch, precision and kernels."""
    rows = context.tables["tokens/s"] = []
    sizes = (100,) if context.tiny else (50_000, 800_000)
    batches = (4,) if context.tiny else (64, 1024)
    name, with_clips = next(iter(configs(context).items()))
    models = {name: with_clips, f"{name}, no clips": without_clips(with_clips)}
    if not context.tiny:
        models = {"en_elmo_sm": SHIPPED, **models}
    text = cache(partial(made_up_text, n_tokens=10 * batches[-1] * 20))
    on_gpu = ("tf32",) if context.device != "cpu" else ()
    cases = [
        (n_words, batch, model, objective, precision)
        for n_words in sizes
        for model in models
        for batch in batches
        for objective in ("adaptive", "sampled")
        for precision in ("float32", *on_gpu, "bfloat16")
    ]
    for n_words, batch, model, objective, precision in context.while_time(cases, 0.1):
        row: dict[str, Any] = {"words": n_words, "model": model, "streams": batch}
        row |= {"objective": objective, "precision": precision}
        some = models[model], text(n_words), batch, precision, context
        n_steps = 1 if context.tiny else 5
        row["chosen"] = _speed(_training(objective, *some), n_steps)
        with force(lstm="gpu_lstm"):
            row["both directions at once"] = _speed(
                _training(objective, *some), n_steps
            )
        if batch == batches[0] and n_words == sizes[0]:
            row["definition"] = _speed(_training("definition", *some), n_steps)
        rows.append(row)
    return context.tables


def _speed(training: Training, n_steps: int) -> float | None:
    def steps() -> float:
        return sum(training.step() for _ in range(n_steps))

    try:
        with torch_settings(training.settings, training.device):
            return in_turn({"steps": steps}, 2)["steps"]
    except torch.cuda.OutOfMemoryError:
        torch.cuda.empty_cache()
        return None


# -- whole runs -------------------------------------------------------------------


class Runs:
    """Runs of the trainer in processes of their own, on made-up text in a folder."""

    def __init__(self, folder: Path, context: Context) -> None:
        self.folder, self.context = folder, context
        tiny = context.tiny
        self.config = TINY if tiny else BiLMConfig()
        self.batch_size, self.max_steps = (4, 30) if tiny else (1024, 200)
        n_words, n_tokens = (300, 2_000) if tiny else (50_000, 600_000)
        self.cutoffs = [n_words // 10, n_words // 2]
        sentences = made_up_sentences(made_up_words(n_words), n_tokens)
        for name, some in (("train", sentences), ("dev", sentences[:100])):
            lines = "\n".join(" ".join(words) for words in some)
            (folder / f"{name}.txt").write_text(lines)
            request = Request(
                tokenizer="whitespace", sentences=False, vocab_size=n_words
            )
            prepare([folder / f"{name}.txt"], folder / name, request, progress=False)
        sizes = self.config.to_dict()
        text = CONFIG.format(
            folder=folder,
            hidden_dim=sizes["hidden_dim"],
            projection_dim=sizes["projection_dim"],
            filters=json.dumps(sizes["filters"]),
            batch_size=self.batch_size,
            max_steps=self.max_steps,
            device=context.device,
            cutoffs=", ".join(map(str, self.cutoffs)),
        )
        (folder / "run.cfg").write_text(text)
        self.n_words = n_words

    def planned_memory(self) -> int:
        """Return the bytes that a run plans to take."""
        make = adaptive_softmax(self.cutoffs)
        softmax = make(self.config.projection_dim, self.n_words)
        model = LanguageModel(BiLM.empty(self.config), softmax)
        on_gpu = self.context.device != "cpu"
        return Plan(model, self.batch_size, 20, 2, on_gpu).memory()

    def start(
        self, output: str, launcher: Sequence[str] = (), **environment: str
    ) -> subprocess.Popen[str]:
        """Start a run, with its messages in a pipe."""
        command = [sys.executable, *launcher, "-m", "spacy_elmo.pretrain"]
        command += [str(self.folder / "run.cfg"), "--output", str(self.folder / output)]
        return subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **environment}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def end(self, process: subprocess.Popen[str]) -> tuple[int, str]:
        """Wait for a run. Return its exit code, and what it said at last."""
        try:
            said, _ = process.communicate(timeout=max(1.0, self.context.left()))
        except subprocess.TimeoutExpired:
            process.kill()
            said, _ = process.communicate()
        return process.returncode, " / ".join(said.strip().splitlines()[-4:])

    def step(self, output: str) -> int | None:
        """Return the step that a run has saved, None before the first."""
        found = checkpoint.read_progress(self.folder / output)
        return found["step"] if found else None


@contextmanager
def all_taken_but(n_bytes: int, device: str) -> Iterator[int]:
    """Take the memory of a GPU, all but so many bytes; yield what is free then."""
    if device == "cpu":
        yield available_memory(torch.device("cpu"))
        return
    excess = available_memory(torch.device(device)) - n_bytes
    taken = torch.empty(max(0, excess), dtype=torch.uint8, device=device)
    yield available_memory(taken.device)
    del taken
    torch.cuda.empty_cache()


def kill_and_resume(context: Context) -> Tables:
    """Return what became of a run that was killed after its first checkpoint."""
    with tempfile.TemporaryDirectory() as name:
        runs = Runs(Path(name), context)
        planned = runs.planned_memory()
        room = int(1.05 * planned) + CUDA_ITSELF
        with all_taken_but(room, context.device) as free:
            process = runs.start("out")
            while process.poll() is None and not runs.step("out"):
                time.sleep(0.05)
            process.send_signal(signal.SIGKILL)
            first = runs.end(process)
            killed = runs.step("out")
            again = runs.end(runs.start("out"))
        row = {
            "GB planned": planned / 1e9,
            "GB free": free / 1e9,
            "killed after step": killed,
            "exit codes": f"{first[0]}, {again[0]}",
            "ended after step": runs.step("out"),
            "of": runs.max_steps,
            "said": again[1] if killed else first[1],
        }
    return {"killed and resumed": [row]}


def torchrun(context: Context) -> Tables:
    """Return losses without torchrun, with it, and while gradients are averaged."""
    rows: Rows = []
    with tempfile.TemporaryDirectory() as name:
        runs = Runs(Path(name), context)
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1"]
        for output, start, gradients in (
            ("alone", [], "afterwards"),
            ("torchrun", launcher, "afterwards"),
            ("overlapped", launcher, "overlapped"),
        ):
            kernels = f"gradients={gradients}"
            run = runs.start(
                output, start, NCCL_DEBUG="VERSION", SPACY_ELMO_KERNELS=kernels
            )
            code, said = runs.end(run)
            log = runs.folder / output / "log.jsonl"
            lines = log.read_text().splitlines() if log.exists() else []
            row = {"run": output, "exit code": code, "lines": len(lines)}
            row["last loss"] = json.loads(lines[-1])["loss"] if lines else None
            rows.append({**row, "said": said})
    return {"one process": rows}
