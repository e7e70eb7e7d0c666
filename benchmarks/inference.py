"""Tokens per second from sentences to layers, beside the definition and other models.

The definition is the same model in plain PyTorch (spacy_elmo/bilm/model.py).
`spacy elmo benchmark` measures settings alone.

Shapes: C cells, H projection, S filters.
"""

from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer
from torch import Tensor
from tqdm import tqdm

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.encode import pack
from spacy_elmo.bilm.lstm import BiLMState
from spacy_elmo.bilm.model import BidirectionalLM
from spacy_elmo.bilm.token_cache import TokenCache
from spacy_elmo.machine import float32_mode, to_device

from .speed import (
    Run,
    Sentences,
    encode_all,
    encoders,
    in_turn,
    latency,
    load_model,
    on_threads,
    read_sentences,
    show,
)
from .speed_limits import flops_per_token, matrix_peak
from .timing import DEVICE, MODEL, TEXT, memory_in_use

BATCH_SIZE = 64  # of what is measured once for each model


class Definition:
    """A biLM's definition, which reads all characters of every token."""

    def __init__(self, bilm: BiLM, dtype: torch.dtype = torch.float32) -> None:
        self.bilm = bilm
        self.model = BidirectionalLM(bilm.config).to(bilm.device, dtype)
        self.model.load_state_dict(bilm.state_dict())

    @torch.no_grad()
    def encode(self, sentences: Sentences) -> list[Tensor]:
        """Return the layers of sentences, each (L+1, T, D), on the model's device."""
        batch, device = pack(sentences), self.bilm.device
        tokens = [batch.words[i] for i in batch.word_N]
        arrays = (
            self.bilm.character_ids(tokens), np.arange(len(tokens)), batch.reversed_N
        )  # fmt: skip
        ids_NC, numbers_N, reversed_N = (to_device(array, device) for array in arrays)
        like = next(self.model.parameters())
        state = BiLMState.zeros(self.bilm.config, len(sentences), like)
        with float32_mode("float32", device.type):
            layers, _ = self.model(
                [ids_NC], numbers_N, reversed_N, batch.batch_sizes, state
            )
        return [layers[:, positions] for positions in batch.positions]


def runs(bilm: BiLM, sentences: Sentences, batch_size: int) -> dict[str, Run]:
    """Return a run over all sentences for the definition and for each setting."""
    models = {"definition": Definition(bilm), **encoders(bilm)}
    return {
        name: partial(encode_all, model, sentences, batch_size)
        for name, model in models.items()
    }


def whole_model(bilm: BiLM, sentences: Sentences, rounds: int) -> dict[str, float]:
    """Return the growth of memory by a first batch, and the share of the speed of a
    large matrix multiplication that the model's own have."""
    device = bilm.device
    before = memory_in_use(device)
    bilm.token_cache = TokenCache(0)
    bilm.encode(sentences[:BATCH_SIZE])
    growth = (memory_in_use(device) - before) / (1 << 20)
    run = {"cold": lambda: encode_all(bilm, sentences, BATCH_SIZE)}
    flops = in_turn(run, rounds)["cold"] * flops_per_token(bilm, sentences, BATCH_SIZE)
    return {
        "MB beside its weights": growth,
        "share of peak": flops / matrix_peak(device),
    }


def benchmark(
    models: Sequence[str],
    sentences: Sentences,
    *,
    batch_sizes: Sequence[int],
    threads: Sequence[int],
    rounds: int,
    device: str = "cpu",
) -> dict[str, list[dict[str, Any]]]:
    """Return tables: tokens/s by model, threads and batch size, milliseconds of single
    sentences, what is measured once for each model, and, on a CPU, tokens/s of other
    models."""
    speeds, latencies, by_model = [], [], []
    settings: dict[str, Any]
    for name in models:
        with on_threads(threads[0]):
            found = whole_model(load_model(name).to(device), sentences, rounds)
            by_model.append({"model": name, **found})
    for name, n in tqdm(list(product(models, threads)), leave=False):
        settings = {"model": name, "threads": n}
        bilm = load_model(name).to(device)
        with on_threads(n):
            for size in batch_sizes:
                found = in_turn(runs(bilm, sentences, size), rounds)
                speeds.append({**settings, "batch": size, **found})
            both = {"definition": Definition(bilm), **encoders(bilm)}
            latencies.append({**settings, **latency(both, sentences)})
    tables = {
        "tokens/s": speeds,
        "milliseconds of 20 tokens": latencies,
        "models": by_model,
    }
    if device == "cpu":
        from .baselines import baselines

        with on_threads(threads[0]):
            others = in_turn(baselines(sentences, BATCH_SIZE), rounds)
        tables["tokens/s of other models"] = [others]
    return tables


def main(
    text: Path | None = typer.Argument(None, help=TEXT),
    model: list[str] = typer.Option(["small", "medium", "original"], help=MODEL),
    batch_size: list[int] = typer.Option([BATCH_SIZE], help="Sentences at once"),
    threads: list[int] = typer.Option([1, 2], help="CPU threads"),
    tokens: int = typer.Option(4_000, help="Tokens of the text that are read"),
    rounds: int = typer.Option(3, help="Times each is measured, in turn"),
    device: str = typer.Option("cpu", help=DEVICE),
    as_json: bool = typer.Option(False, "--json", help="Print JSON"),
) -> None:
    sentences = read_sentences(text, tokens)
    found = benchmark(
        model,
        sentences,
        batch_sizes=batch_size,
        threads=threads,
        rounds=rounds,
        device=device,
    )
    show(found, as_json)


if __name__ == "__main__":
    typer.run(main)
