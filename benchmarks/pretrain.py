"""Tokens per second of training by objective and vocabulary, beside the definition.

On made-up text with the frequencies of English. The definition is the model in plain
PyTorch (spacy_elmo/bilm/model.py) with a full softmax: it reads all characters of every
token and gets its gradients from autograd.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import typer
from tqdm import tqdm

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.kernels.kernel import force
from spacy_elmo.bilm.objectives.adaptive import adaptive_softmax
from spacy_elmo.bilm.objectives.full import full_softmax
from spacy_elmo.bilm.objectives.sampled import sampled_softmax
from spacy_elmo.pretrain.config import TrainingConfig
from spacy_elmo.pretrain.loop import train_step
from spacy_elmo.pretrain.memory import keep_freed_memory
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.pretrain.optimizers import adam
from spacy_elmo.text.corpus import SPECIALS, Corpus, build_corpus
from spacy_elmo.text.streams import Batch, Streams

from .gpu.floor import lstm_flops
from .speed import (
    in_turn,
    load_model,
    made_up_sentences,
    made_up_words,
    on_threads,
    show,
)
from .speed_limits import matrix_peak
from .timing import DEVICE, MODEL, memory_in_use, page_faults

OBJECTIVES = ("full", "adaptive", "sampled", "definition")
DEFINITION = {"token_encoder": "definition", "lstm": "definition"}
N_SAMPLES = 8192
# Beyond this a full softmax takes minutes for a step on a CPU.
FULL_AT_MOST = 200_000


def cutoffs(n_words: int) -> list[int]:
    """A head and two clusters for a vocabulary, as its size suggests."""
    return [n_words // 25, n_words // 4]


def made_up_text(n_words: int, n_tokens: int) -> Corpus:
    """Return made-up text with a vocabulary of so many words."""
    words = made_up_words(n_words - len(SPECIALS))
    sentences = made_up_sentences(words, n_tokens)
    return build_corpus(sentences, vocab=[*SPECIALS, *words])


class Training:
    """Steps of one objective, one after the other through a text."""

    def __init__(
        self,
        objective: str,
        sizes: BiLMConfig,
        corpus: Corpus,
        *,
        batch_size: int,
        unroll_steps: int,
        device: torch.device,
        precision: str,
    ) -> None:
        n_words = len(corpus.vocab)
        torch.manual_seed(0)
        made = {
            "sampled": sampled_softmax(min(N_SAMPLES, n_words // 2)),
            "adaptive": adaptive_softmax(cutoffs(n_words)),
        }.get(objective, full_softmax())
        softmax = made(sizes.projection_dim, n_words)
        self.objective, self.device = objective, device
        self.settings = TrainingConfig(precision=precision)
        self.model = LanguageModel(BiLM.random(sizes), softmax).to(device).train()
        self.streams = Streams(corpus, self.model.bilm, batch_size, unroll_steps)
        self.states = [self.model.bilm.zero_state(batch_size)]
        dense = dict(self.model.bilm.named_parameters(prefix="bilm"))
        rest = dict(softmax.named_parameters(prefix="softmax"))
        sparse = rest if softmax.sparse_gradients else {}
        self.optimizers = adam().make(dense if sparse else dense | rest, sparse)
        self.number = 0

    def step(self) -> float:
        """Return the tokens read; both directions of a token are one."""
        batch = self.streams.batch(self.number % len(self.streams))
        kernels = {}
        if self.objective == "definition":
            batch = every_token(batch, self.model.bilm.config)
            kernels = DEFINITION
        with force(**kernels):
            train_step(
                self.model,
                self.optimizers,
                [batch],
                self.states,
                self.settings,
                step=self.number,
            )
        self.number += 1
        return len(batch.forward.word_N)


def every_token(batch: Batch[np.ndarray], config: BiLMConfig) -> Batch[np.ndarray]:
    """Return a batch whose tokens are read one by one, with all their characters."""
    C = config.max_characters
    # The first word is a boundary, or the shortest one: it ends in padding.
    padding = batch.token_ids[0][0, -1]
    full_VC = np.concatenate(
        [
            np.pad(
                ids_VC[:, :C],
                ((0, 0), (0, max(0, C - ids_VC.shape[1]))),
                constant_values=padding,
            )
            for ids_VC in batch.token_ids
        ]
    )
    ahead, back = batch.forward, batch.backward
    numbers_N = np.arange(len(ahead.word_N))
    return Batch(
        (full_VC[np.concatenate([ahead.word_N, back.word_N])],),
        ahead._replace(word_N=numbers_N),
        back._replace(word_N=len(numbers_N) + numbers_N),
        batch.n_streams,
    )


def benchmark(
    *,
    model: str = "small",
    vocabularies: Sequence[int],
    objectives: Sequence[str] = OBJECTIVES,
    batch_size: int = 64,
    unroll_steps: int = 20,
    rounds: int = 3,
    device: torch.device,
    precision: str = "float32",
) -> dict[str, list[dict[str, Any]]]:
    """Return tables: tokens/s by vocabulary and objective; the share of the speed of a
    large matrix multiplication that the LSTMs have, and the pages of memory that a step
    of the first objective takes, with the largest vocabulary."""
    sizes = load_model(model).config
    rows: list[dict[str, Any]] = []
    faults = None
    for n_words in tqdm(vocabularies, leave=False):
        corpus = made_up_text(n_words, 40 * batch_size * unroll_steps)
        at_most = dict.fromkeys(("full", "definition"), FULL_AT_MOST)
        runs = {
            name: Training(
                name,
                sizes,
                corpus,
                batch_size=batch_size,
                unroll_steps=unroll_steps,
                device=device,
                precision=precision,
            ).step
            for name in objectives
            if n_words <= at_most.get(name, n_words)
        }
        speeds = in_turn(runs, rounds)
        rows.append({"words": n_words, **{o: speeds.get(o) for o in objectives}})
        before = page_faults()
        next(iter(runs.values()))()
        faults = None if before is None else (page_faults() or 0) - before
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    fastest = max(row[o] or 0.0 for row in rows for o in objectives)
    # The gradient takes twice as many operations as the forward pass.
    share = 3 * lstm_flops(sizes) * fastest / matrix_peak(device, dtype)
    memory = {
        "LSTMs, share of peak": share,
        "GB": memory_in_use(device) / (1 << 30),
        "page faults of a step": faults,
    }
    return {"tokens/s": rows, "of all": [memory]}


def main(
    model: str = typer.Option("small", "--model", "--size", help=MODEL),
    vocab: list[int] = typer.Option(
        [10_000, 50_000, 200_000, 800_000], help="Words of the softmax"
    ),
    objective: list[str] = typer.Option(list(OBJECTIVES), help="What to train with"),
    batch_size: int = typer.Option(64, help="Streams"),
    unroll_steps: int = typer.Option(20, help="Steps of each"),
    rounds: int = typer.Option(3, help="Times each is measured, in turn"),
    threads: int = typer.Option(1, help="CPU threads"),
    device: str = typer.Option("cpu", help=DEVICE),
    precision: str = typer.Option("float32", help="float32 or bfloat16"),
    as_json: bool = typer.Option(False, "--json", help="Print JSON"),
) -> None:
    keep_freed_memory()  # as the command that trains
    with on_threads(threads):
        found = benchmark(
            model=model,
            vocabularies=vocab,
            objectives=objective,
            batch_size=batch_size,
            unroll_steps=unroll_steps,
            rounds=rounds,
            device=torch.device(device),
            precision=precision,
        )
        show(found, as_json)


if __name__ == "__main__":
    typer.run(main)
