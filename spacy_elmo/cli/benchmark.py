"""spacy elmo benchmark: measurements, as tables or JSON."""

import json
from pathlib import Path
from typing import Any

import typer
from wasabi import msg

from . import app, clear_errors

benchmark_app = typer.Typer(help="Measure speed and quality.", no_args_is_help=True)
app.add_typer(benchmark_app, name="benchmark")


@benchmark_app.command("pretrain")
def pretrain_cli(
    size: str = typer.Option("small", help="tiny, small, medium or original"),
    vocab: list[int] = typer.Option(
        [10_000, 50_000, 200_000, 800_000], help="Words of the softmax"
    ),
    objective: list[str] = typer.Option(
        ["full", "adaptive", "sampled", "textbook"], help="What to train with"
    ),
    batch_size: int = typer.Option(64, help="Streams"),
    unroll_steps: int = typer.Option(20, help="Steps of each"),
    rounds: int = typer.Option(3, help="Times each is measured, in turn"),
    threads: int = typer.Option(1, help="CPU threads"),
    device: str = typer.Option("cpu", help="cpu or cuda"),
    precision: str = typer.Option("float32", help="float32 or bfloat16"),
    as_json: bool = typer.Option(False, "--json", help="Print JSON"),
) -> None:
    """Tokens/s of training for each objective and vocabulary, on made-up text with the
    frequencies of English, against a straightforward PyTorch trainer."""
    import torch

    from ..benchmarks.pretrain import OBJECTIVES, benchmark
    from ..benchmarks.sizes import SIZES
    from ..errors import Errors

    with clear_errors():
        for given, known in [(size, SIZES), *((o, OBJECTIVES) for o in objective)]:
            if given not in known:
                raise ValueError(
                    Errors.EL073.format(found=given, known=", ".join(known))
                )
        torch.set_num_threads(threads)
        found = benchmark(
            size=size,
            vocabularies=vocab,
            objectives=objective,
            batch_size=batch_size,
            unroll_steps=unroll_steps,
            rounds=rounds,
            device=torch.device(device),
            precision=precision,
            tell=lambda text: None if as_json else msg.text(text),
        )
        if as_json:
            typer.echo(json.dumps(found))
            return
        rows = []
        for n_words, speeds in found["tokens_per_second"].items():
            base = speeds.get("textbook")
            row = [f"{n_words:,}"]
            for name in objective:
                speed = speeds.get(name)
                times = f" ({speed / base:.1f}x)" if speed and base else ""
                row.append(f"{speed:,.0f}{times}" if speed else "-")
            rows.append(row)
        msg.table(rows, header=["words", *objective], divider=True)
        msg.info(
            f"{size}, {batch_size} x {unroll_steps} tokens a step, {precision}; LSTMs "
            f"at {found['lstm_share_of_peak']:.0%} of {found['matrix_peak_flops']:.3g} "
            f"FLOP/s; {found['memory_bytes'] / (1 << 30):.1f} GB; {found['machine']}"
        )


@benchmark_app.command("ngram")
def ngram_cli(
    train: Path = typer.Argument(..., help="Training text, prepared"),
    held_out: Path = typer.Argument(..., help="Held-out text, prepared"),
    vocab_size: int = typer.Option(16_000, help="Words of the vocabulary"),
    max_tokens: int | None = typer.Option(None, help="Read no more of the training"),
    order: int = typer.Option(5, help="Words of the longest n-gram"),
    as_json: bool = typer.Option(False, "--json", help="Print JSON"),
) -> None:
    """Perplexity of a smoothed n-gram model (modified Kneser-Ney): what a biLM of the
    same training text and vocabulary should be well below."""
    from ..benchmarks.ngram import ngram_perplexity
    from ..pretrain.shards import open_corpus

    with clear_errors():
        text = open_corpus(train).limit_vocab(vocab_size).first(max_tokens)
        found = ngram_perplexity(
            text, open_corpus(held_out).with_vocab(text.vocab), order
        )
        if as_json:
            typer.echo(json.dumps(found))
        else:
            msg.table({name: f"{value:.2f}" for name, value in found.items()})
            msg.info(f"{order}-gram of {text.n_tokens:,} tokens, {vocab_size:,} words")


@benchmark_app.command("inference")
def inference_cli(
    text: Path | None = typer.Argument(
        None, help="Prepared text to read; made-up text if none is given"
    ),
    size: list[str] = typer.Option(
        ["small", "medium", "original", "shipped"], help="Published sizes, or shipped"
    ),
    batch_size: int = typer.Option(64, help="Sentences computed at once"),
    tokens: int = typer.Option(10_000, help="Tokens of the text that are read"),
    rounds: int = typer.Option(3, help="Times each is measured, in turn"),
    threads: int = typer.Option(1, help="CPU threads"),
    as_json: bool = typer.Option(False, "--json", help="Print JSON"),
) -> None:
    """Tokens/s from sentences to layers, and the latency of single sentences, against a
    straightforward PyTorch biLM with the same weights."""
    import torch

    from ..benchmarks.inference import SHIPPED, benchmark
    from ..benchmarks.sizes import SIZES, zipf_text
    from ..errors import Errors
    from ..pretrain.shards import open_corpus

    with clear_errors():
        known = [*SIZES, SHIPPED]
        for name in size:
            if name not in known:
                message = Errors.EL073.format(found=name, known=", ".join(known))
                raise ValueError(message)
        torch.set_num_threads(threads)
        found = benchmark(
            size,
            open_corpus(text) if text else zipf_text(50_000, tokens),
            batch_size=batch_size,
            n_tokens=tokens,
            rounds=rounds,
            tell=lambda text: None if as_json else msg.text(text),
        )
        if as_json:
            typer.echo(json.dumps(found))
            return
        rows = [_inference_row(name, r) for name, r in found["results"].items()]
        header = ["size", "textbook", "cold", "warm", "sorted: textbook", "cold"]
        header += ["20 tokens: textbook", "cold", "warm", "of peak", "memory"]
        msg.table(rows, header=header, divider=True)
        msg.info(f"tokens/s, batches of {batch_size}; {found['machine']}")


def _inference_row(name: str, result: dict[str, Any]) -> list[str]:
    speed, latency = result["tokens_per_second"], result["latency_ms"]
    row = [name, f"{speed['textbook']:,.0f}"]
    for column in ("cold", "warm"):
        times = speed[column] / speed["textbook"]
        row.append(f"{speed[column]:,.0f} ({times:.1f}x)")
    times = speed["cold, sorted"] / speed["textbook, sorted"]
    row.append(f"{speed['textbook, sorted']:,.0f}")
    row.append(f"{speed['cold, sorted']:,.0f} ({times:.1f}x)")
    row.append(f"{latency['textbook']['p50']:.0f} ms")
    for column in ("cold", "warm"):
        times = latency["textbook"]["p50"] / latency[column]["p50"]
        row.append(f"{latency[column]['p50']:.1f} ms ({times:.1f}x)")
    row.append(f"{result['share_of_peak']:.0%}")
    return [*row, f"{result['memory_growth_bytes'] / (1 << 20):.0f} MB"]
