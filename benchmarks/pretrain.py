"""Tokens a second of training by objective and vocabulary, beside a textbook trainer.

On made-up text with the frequencies of English. (The textbook trainer: all characters
of every token, a loop over time, all words for every prediction.)
"""

from collections.abc import Sequence
from typing import Any

import torch
import typer
from torch import Tensor
from tqdm import tqdm

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.objectives.adaptive import adaptive_softmax
from spacy_elmo.bilm.objectives.full import full_softmax
from spacy_elmo.bilm.objectives.sampled import sampled_softmax
from spacy_elmo.cli.benchmark import (
    MODEL,
    in_turn,
    load_model,
    made_up_sentences,
    made_up_words,
    show,
    torch_threads,
)
from spacy_elmo.pretrain.config import TrainingConfig
from spacy_elmo.pretrain.model import LanguageModel, on_device
from spacy_elmo.pretrain.optimizers import adam, clip_gradients
from spacy_elmo.pretrain.step import train_step
from spacy_elmo.text.corpus import SPECIALS, Corpus, build_corpus
from spacy_elmo.text.streams import Batch, Streams

from . import textbook
from .timing import matrix_peak, memory_in_use

OBJECTIVES = ("full", "adaptive", "sampled", "textbook")
N_SAMPLES = 8192
# Beyond this a full softmax takes minutes a step on a CPU; the textbook's takes all
# memory earlier.
FULL_AT_MOST, TEXTBOOK_AT_MOST = 200_000, 50_000


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
        dense = list(self.model.bilm.parameters())
        rest = list(softmax.parameters())
        sparse = rest if softmax.sparse_gradients else []
        self.optimizers = adam().make(dense if sparse else dense + rest, sparse)
        self.number = 0

    def step(self) -> float:
        """Return the tokens read; both directions of a token are one."""
        batch = self.streams.batch(self.number % len(self.streams))
        if self.objective == "textbook":
            self._textbook_step(on_device(batch, self.device))
        else:
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

    def _textbook_step(self, batch: Batch[Tensor]) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        low = self.settings.precision == "bfloat16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=low):
            inputs = textbook_batch(batch, self.model.bilm)
            loss, self.states[0] = textbook.loss(self.model, *inputs, self.states[0])
        loss.backward()
        clip_gradients(self.model.parameters(), self.settings.clip_norm)
        for optimizer in self.optimizers:
            optimizer.step()


def textbook_batch(
    batch: Any, bilm: BiLM
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """A batch as the textbook reads it: all characters of every token."""
    missing = bilm.config.max_characters - batch.characters_VC.shape[1]
    padding = int(batch.characters_VC[0, -1])  # a boundary's word ends in padding
    full_VC = torch.nn.functional.pad(
        batch.characters_VC[:, : bilm.config.max_characters],
        (0, max(0, missing)),
        value=padding,
    )
    ids, targets = [], []
    for reading in (batch.forward, batch.backward):
        target_N = torch.full_like(reading.word_N, -1)
        target_N[reading.position_P] = reading.target_P
        ids.append(full_VC[reading.word_N].unflatten(0, (-1, batch.n_streams)))
        targets.append(target_N.unflatten(0, (-1, batch.n_streams)))
    return (ids[0], ids[1]), (targets[0], targets[1])


def lstm_flops(sizes: BiLMConfig) -> float:
    """FLOP of one token's LSTMs, forward and gradient, both directions."""
    H, C = sizes.projection_dim, sizes.hidden_dim
    return 3 * 2 * 2.0 * sizes.n_layers * (2 * H * 4 * C + C * H)


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
    """Return tables: tokens/s by vocabulary and objective, and the share of the speed
    of a large matrix product that the LSTMs have."""
    sizes = load_model(model).config
    rows: list[dict[str, Any]] = []
    for n_words in tqdm(vocabularies, leave=False):
        corpus = made_up_text(n_words, 40 * batch_size * unroll_steps)
        at_most = {"full": FULL_AT_MOST, "textbook": TEXTBOOK_AT_MOST}
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
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    fastest = max(row[o] or 0.0 for row in rows for o in objectives)
    share = lstm_flops(sizes) * fastest / matrix_peak(device, dtype)
    memory = {"LSTMs, share of peak": share, "GB": memory_in_use(device) / (1 << 30)}
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
    device: str = typer.Option("cpu", help="cpu or cuda"),
    precision: str = typer.Option("float32", help="float32 or bfloat16"),
    as_json: bool = typer.Option(False, "--json", help="Print JSON"),
) -> None:
    with torch_threads(threads):
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
