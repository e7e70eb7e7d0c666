"""What the C library makes of this processor, by instructions and precision.

    python -m benchmarks.kernels [MODEL ...]

It prints GFLOP/s of the matrix multiplications of 64 sentences whose tokens were not
read before, and their share of torch's own large multiplication in the same precision;
GFLOP/s of the library's own multiplication alone, which nothing that it computes can
exceed; milliseconds of these sentences, and of one of 20 tokens that were read before;
the largest error of their layers against the definition in float64, as a share of the
largest number. All is measured on one thread, in turn. Without the library ("none")
PyTorch computes.
"""

from functools import partial
from typing import Any

import torch
import typer

from spacy_elmo.bilm import BiLM, TokenCache
from spacy_elmo.bilm.kernels import find_library, force, native
from spacy_elmo.bilm.kernels.kernel import KERNELS

from .inference import Definition
from .speed import (
    Run,
    Sentences,
    encode_all,
    in_turn,
    load_model,
    made_up_sentences,
    made_up_words,
    on_threads,
    precisions,
    show,
    single_sentences,
)
from .speed_limits import flops_per_token, large_product
from .timing import MODEL

SENTENCES = 64
PRODUCT = 96, 256, 2048  # rows, inputs and outputs, as of a step of en_elmo_sm
TIMES = 100  # that it is computed in a run
Row = dict[str, Any]


def instructions_here() -> list[str]:
    """Return the instructions that the library can use here, and "none"."""
    found = []
    for name in KERNELS["instructions"]:
        try:
            with force(instructions=name):
                find_library()
        except ValueError:
            continue
        found.append(name)
    return found


def reader(name: str, precision: str, instructions: str, *, warm: bool) -> BiLM:
    """Return a model in a precision that these instructions have."""
    with force(instructions=instructions):
        bilm = load_model(name).set_precision(precision)  # type: ignore[arg-type]
    bilm.token_cache = TokenCache(1 << 20 if warm else 0)
    return bilm


def read(bilm: BiLM, instructions: str, batches: list[Sentences]) -> float:
    """Read batches by these instructions. Returns 1: a run is the unit."""
    with force(instructions=instructions):
        for batch in batches:
            encode_all(bilm, batch, SENTENCES)
    return 1.0


def own_product(instructions: str, precision: str) -> Run:
    """Return a run of the library's own multiplication; its units are FLOP."""
    library, (M, K, N) = native.load(instructions), PRODUCT
    mode, columns = library.mode(precision), library.columns(N)
    tensors = {
        "weight": library.pack(mode, columns, torch.randn(K, N)),
        "bias": torch.zeros(len(columns)),
        "x": torch.randn(M, K),
        "out": torch.empty(M, N),
    }

    def product() -> float:
        sizes = {"mode": mode, "n_rows": M, "n_in": K, "n_out": N}
        task = library.new("elmo_product", **sizes, **tensors)
        for _ in range(TIMES):
            library.call("linear", task)
        return TIMES * 2.0 * M * K * N

    return product


def error(bilm: BiLM, instructions: str, sentences: Sentences) -> float:
    """Return the largest error of the layers, as a share of the largest number."""
    expected = torch.cat(Definition(bilm, torch.float64).encode(sentences), dim=1)
    with force(instructions=instructions):
        found = torch.cat(list(map(torch.tensor, bilm.encode(sentences))), dim=1)
    return float((found - expected).abs().max() / expected.abs().max())


def measure(name: str, rounds: int) -> list[Row]:
    """Return a row for each of the instructions and precisions."""
    sentences = made_up_sentences(made_up_words(50_000), 20 * SENTENCES)
    single = single_sentences(sentences)
    n_flops = sum(map(len, sentences))
    n_flops *= flops_per_token(load_model(name), sentences, SENTENCES)
    cases, runs, errors = [], dict[str, Run](), list[float]()
    for instructions in instructions_here():
        with force(instructions=instructions):
            cases += [(instructions, precision) for precision in precisions()]
    for i, (instructions, precision) in enumerate(cases):
        cold, warm = (
            reader(name, precision, instructions, warm=warm) for warm in (False, True)
        )
        errors.append(error(cold, instructions, sentences))
        runs[f"{i} many"] = partial(read, cold, instructions, [sentences])
        runs[f"{i} one"] = partial(read, warm, instructions, single)
        if instructions != "none":
            runs[f"{i} product"] = own_product(instructions, precision)
    for precision in {precision for _, precision in cases}:
        runs[precision] = large_product(torch.device("cpu"), precision=precision)
    with torch.no_grad():
        found = in_turn(runs, rounds)
    rows = []
    for i, (instructions, precision) in enumerate(cases):
        many, one = found[f"{i} many"], found[f"{i} one"]
        rows.append(
            {
                "model": name,
                "instructions": instructions,
                "precision": precision,
                "GFLOP/s": n_flops * many / 1e9,
                "of torch's product": n_flops * many / found[precision],
                "product alone": found.get(f"{i} product", 0.0) / 1e9,
                "ms of 64": 1000 / many,
                "ms of one": 1000 / one / len(single),
                "error": errors[i],
            }
        )
    return rows


def main(
    model: list[str] = typer.Argument(["en_elmo_sm"], help=MODEL),
    rounds: int = typer.Option(3, min=1, help="Times each is measured, in turn"),
    as_json: bool = typer.Option(False, "--json", help="Print JSON"),
) -> None:
    with on_threads(1):
        rows = [row for name in model for row in measure(name, rounds)]
    show({"the library, one thread": rows}, as_json)


if __name__ == "__main__":
    typer.run(main)
