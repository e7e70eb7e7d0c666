"""Every form of a matrix multiplication at the rows and sizes that occur, one thread.

    python -m benchmarks.kernels

In two minutes it prints which form is the fastest on this processor, and the rows of
the table in spacy_elmo/bilm/kernels/choose.py that should change for it. A lesser one
is tried with ONEDNN_MAX_CPU_ISA, ATEN_CPU_CAPABILITY and MKL_ENABLE_INSTRUCTIONS.

Shapes: M rows, K columns in, N columns out.
"""

import math
import time
from typing import Any

import torch
import typer
from spacy_elmo.bilm.kernels.choose import choose_matmul, choose_recurrent_matmul
from tqdm import tqdm

from spacy_elmo.bilm.config import PUBLISHED
from spacy_elmo.bilm.kernels.matmul import FORMS, TorchMatmul, find_form
from spacy_elmo.cli.speed import show
from spacy_elmo.machine import thread_count
from spacy_elmo.machine.processor import Case, Precision, processor_of

FORMS_OF: dict[Precision, tuple[str, ...]] = {
    "float32": ("torch", "mkl", "onednn", "onednn_in_place"),
    "half": ("onednn_bfloat16", "fbgemm_float16"),
    "int8": ("onednn_int8", "fbgemm_int8"),
}
STEP_ROWS = (1, 2, 3, 4, 8, 16, 32, 64)  # of a step of the LSTM
MANY_ROWS = (32, 128, 512)  # of its inputs, and of words in the char-CNN
# A form is said to be better from such a part of the time on.
BETTER = 0.9
SECONDS = 0.05  # for each form

Row = dict[str, Any]


def weights() -> dict[tuple[int, int, bool], tuple[int, ...]]:
    """Return the rows that multiply each weight of the published sizes: (K, N, whether
    the product is added to gates)."""
    found: dict[tuple[int, int, bool], tuple[int, ...]] = {}
    for config in PUBLISHED.values():
        H, C, S = config.projection_dim, config.hidden_dim, config.n_filters
        width = max(width for width, _ in config.filters)
        found |= {(H, 4 * C, True): STEP_ROWS, (C, H, False): STEP_ROWS}
        found |= {(H, 4 * C, False): MANY_ROWS, (S, S, False): MANY_ROWS}
        found[width * config.char_dim, S, False] = MANY_ROWS
    return found


def microseconds(weight: TorchMatmul, x: torch.Tensor, z: torch.Tensor | None) -> float:
    """Return the processor time of a product: the least of several rounds, which other
    work on the machine disturbs least."""

    def run() -> None:
        if z is None:
            weight.linear(x)
        else:
            weight.add_to(z, x)

    run()
    best, started = math.inf, time.thread_time()
    while time.thread_time() - started < SECONDS:
        before = time.thread_time()
        for _ in range(3):
            run()
        best = min(best, (time.thread_time() - before) / 3)
    return 1e6 * best


@torch.no_grad()
def measure() -> list[Row]:
    """Return a row for each precision, size and number of rows: the microseconds of
    every form, the fastest, and the one that the table names."""
    processor = processor_of(torch.device("cpu"))
    table: list[Row] = []
    for (K, N, adds), all_rows in tqdm(weights().items(), leave=False):
        weight = torch.randn(K, N) / math.sqrt(K)
        recurrent = all_rows is STEP_ROWS
        for precision, names in FORMS_OF.items():
            try:
                choose = choose_recurrent_matmul if recurrent else choose_matmul
                rules = choose(Case(processor, precision))
            except ValueError:
                rules = ()
            works = [name for name in names if name in processor.forms]
            forms = {name: FORMS[name](weight) for name in works}
            for M in all_rows:
                x, z = torch.randn(M, K), torch.randn(M, N) if adds else None
                times = {f: microseconds(kept, x, z) for f, kept in forms.items()}
                if times:
                    row: Row = {"precision": precision, "rows": M, "weight": f"{K}x{N}"}
                    row |= {
                        name: times.get(name) for name in sum(FORMS_OF.values(), ())
                    }
                    chosen = find_form(rules, M, weight.nbytes) if rules else None
                    row["chosen"] = chosen
                    table.append(row | {"best": min(times, key=times.__getitem__)})
    return table


def changes(table: list[Row]) -> list[Row]:
    """Return the rows in which another form is better than the one that is chosen."""
    found = []
    for row in table:
        chosen, best = row["chosen"], row["best"]
        if chosen is None or row[best] < BETTER * row[chosen]:
            found.append(row)
    return found


def main(
    whole: bool = typer.Option(False, help="Print all that was measured"),
    as_json: bool = typer.Option(False, "--json", help="Print JSON"),
) -> None:
    """Measure every form of a matrix multiplication on this processor."""
    with thread_count(1):
        table = measure()
        instructions = processor_of(torch.device("cpu")).instructions
        title = f"microseconds, and rows of '{instructions}' that should change"
        show({title: table if whole else changes(table) or [{"none": ""}]}, as_json)


if __name__ == "__main__":
    typer.run(main)
