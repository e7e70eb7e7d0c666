"""spacy elmo benchmark: measurements, as tables or JSON."""

import json
from pathlib import Path
from typing import Any

import typer
from wasabi import msg

from .group import app, clear_errors

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

    from benchmarks.pretrain import OBJECTIVES, benchmark
    from benchmarks.sizes import SIZES

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
    from benchmarks.ngram import ngram_perplexity

    from ..text.shards import open_corpus

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
    batch_size: list[int] = typer.Option(
        [1, 32, 64, 128], help="Sentences computed at once"
    ),
    threads: list[int] = typer.Option([1, 2], help="CPU threads"),
    tokens: int = typer.Option(4_000, help="Tokens of the text that are read"),
    rounds: int = typer.Option(3, help="Times each is measured, in turn"),
    as_json: bool = typer.Option(False, "--json", help="Print JSON"),
) -> None:
    """Tokens/s from sentences to layers, and the latency of single sentences, against a
    straightforward PyTorch biLM with the same weights, and beside other models."""
    from benchmarks.inference import benchmark

    with clear_errors():
        _check_sizes(size)
        found = benchmark(
            size,
            _text_to_read(text, tokens),
            batch_sizes=batch_size,
            threads=threads,
            n_tokens=tokens,
            rounds=rounds,
            tell=lambda text: None if as_json else msg.text(text),
        )
        if as_json:
            typer.echo(json.dumps(found))
            return
        header = ["size", "threads", "batch", "textbook", "cold", "warm", "half"]
        header += ["int8", "sorted: textbook", "cold"]
        speeds = [_speed_row(row) for row in found["speeds"]]
        msg.table(speeds, header=header, divider=True)
        header = ["size", "threads", "20 tokens: textbook", "cold", "warm"]
        rows = [
            _latency_row(name, n, latency)
            for name, model in found["models"].items()
            for n, latency in model["latency_ms"].items()
        ]
        msg.table(rows, header=header, divider=True)
        for name, model in found["models"].items():
            msg.info(
                f"{name}: {model['share_of_peak']:.0%} of a large product's speed; "
                f"{model['memory_growth_bytes'] / (1 << 20):.0f} MB beside its weights"
            )
        for name, speed in found["baselines"].items():
            msg.info(f"{name}: {speed:,.0f} tokens/s")
        msg.info(f"tokens/s (times the textbook's); {found['machine']}")


@benchmark_app.command("pipe")
def pipe_cli(
    text: Path | None = typer.Argument(
        None, help="Prepared text to read; made-up text if none is given"
    ),
    size: list[str] = typer.Option(["small"], help="Published sizes, or shipped"),
    doc_words: list[int] = typer.Option(
        [0, 200, 1000], help="Words of a Doc; 0 for a sentence"
    ),
    tokens: int = typer.Option(20_000, help="Tokens of the text that are read"),
    rounds: int = typer.Option(3, help="Times each is measured"),
    precision: str = typer.Option("float32", help="float32, half or int8"),
    as_json: bool = typer.Option(False, "--json", help="Print JSON"),
) -> None:
    """Words/s of nlp.pipe with a tagger and a ner that listen, on one thread, and the
    share of time that is not the biLM's."""
    from benchmarks.inference import sentences_of
    from benchmarks.pipe import benchmark

    with clear_errors():
        _check_sizes(size)
        found = benchmark(
            size,
            sentences_of(_text_to_read(text, tokens), tokens),
            doc_words=doc_words,
            rounds=rounds,
            precision=precision,
            tell=lambda text: None if as_json else msg.text(text),
        )
        if as_json:
            typer.echo(json.dumps(found))
            return
        rows = [
            (
                row["size"],
                f"{row['docs']:,}",
                str(row["doc_words"] or "sentences"),
                f"{row['words_per_second']:,.0f}",
                f"{row['share_outside']:.1%}",
            )
            for row in found["pipes"]
        ]
        header = ["size", "Docs", "of words", "words/s", "outside the biLM"]
        msg.table(rows, header=header, divider=True)
        msg.info(f"{precision}; {found['machine']}")


@benchmark_app.command("scaling")
def scaling_cli(
    size: str = typer.Option("shipped", help="A published size, or shipped"),
    tokens: int = typer.Option(20_000, help="Tokens of the made-up text"),
    docs: int = typer.Option(100_000, help="Docs at most"),
    doc_words: int = typer.Option(20, help="Words of each of them"),
    rounds: int = typer.Option(3, help="Times each is measured, in turn"),
    as_json: bool = typer.Option(False, "--json", help="Print JSON"),
) -> None:
    """Speed by sentence length, batch, vocabulary and listeners, and memory by the
    number of Docs, on one thread and made-up text."""
    from benchmarks.scaling import benchmark

    with clear_errors():
        _check_sizes([size])
        found = benchmark(
            size,
            n_tokens=tokens,
            docs=docs,
            doc_words=doc_words,
            rounds=rounds,
            tell=lambda text: None if as_json else msg.text(text),
        )
        if as_json:
            typer.echo(json.dumps(found))
            return
        for name, title, unit in (
            ("sentence_length", "tokens of a sentence", "tokens/s"),
            ("batch", "sentences of a batch", "tokens/s"),
            ("vocabulary", "distinct words, new", "tokens/s"),
            ("listeners", "listeners", "words/s"),
        ):
            speeds = found[name]
            header = [title, *(f"{n:,}" for n in speeds)]
            row = [unit, *(f"{speed:,.0f}" for speed in speeds.values())]
            msg.table([row], header=header, divider=True)
        row = [f"{line['memory_bytes'] / (1 << 20):,.0f}" for line in found["docs"]]
        header = ["Docs", *(f"{line['docs']:,}" for line in found["docs"])]
        msg.table([["MB", *row]], header=header, divider=True)
        msg.info(f"{size}; {found['machine']}")


@benchmark_app.command("layer-cache")
def layer_cache_cli(
    text: Path | None = typer.Argument(
        None, help="A folder that 'prepare' made; made-up text by default"
    ),
    size: list[str] = typer.Option(["small"], help="Published sizes, or shipped"),
    tokens: int = typer.Option(8_000, help="Tokens of the text"),
    rounds: int = typer.Option(3, help="Times each is measured, in turn"),
    as_json: bool = typer.Option(False, "--json", help="Print JSON"),
) -> None:
    """Words/s of an epoch of a tagger on a frozen biLM, after the first one: without
    the layer cache, and with it; and of one on static vectors."""
    from benchmarks.inference import sentences_of
    from benchmarks.layer_cache import benchmark

    with clear_errors():
        _check_sizes(size)
        sentences = sentences_of(_text_to_read(text, tokens), tokens)
        found = benchmark(
            size,
            sentences,
            rounds=rounds,
            tell=lambda text: None if as_json else msg.text(text),
        )
        if as_json:
            typer.echo(json.dumps(found))
            return
        rows = []
        for name, speeds in found["sizes"].items():
            base = speeds.pop("encoded anew")
            others = (_times(speed, base) for speed in speeds.values())
            rows.append((name, f"{base:,.0f}", *others))
        header = ("size", "encoded anew", "memory", "file", "static vectors")
        msg.table(rows, header=header, divider=True)
        msg.info(f"words/s; {found['machine']}")


@benchmark_app.command("precision")
def precision_cli(
    pipeline: Path = typer.Argument(..., help="Trained pipeline with an elmo"),
    corpus: Path = typer.Argument(..., help="Annotated .spacy file"),
    as_json: bool = typer.Option(False, "--json", help="Print JSON"),
) -> None:
    """What half precision and 8 bits cost a trained pipeline: errors of its vectors in
    units of their root mean square, and its scores."""
    from benchmarks.precision import benchmark

    with clear_errors():
        found = benchmark(
            pipeline, corpus, tell=lambda text: None if as_json else msg.text(text)
        )
        if as_json:
            typer.echo(json.dumps(found))
            return
        rows = []
        for name, result in found["precisions"].items():
            errors = f"{result['mean_error']:.1e}", f"{result['max_error']:.1e}"
            scores = (f"{k} {v:.2%}" for k, v in result["scores"].items())
            rows.append((name, *errors, ", ".join(scores)))
        header = ["precision", "mean error", "largest", "scores"]
        msg.table(rows, header=header, divider=True)


def _check_sizes(sizes: list[str]) -> None:
    """Raises ValueError [EL073]."""
    from benchmarks.inference import SHIPPED
    from benchmarks.sizes import SIZES

    from ..errors import Errors

    known = [*SIZES, SHIPPED]
    for name in sizes:
        if name not in known:
            message = Errors.EL073.format(found=name, known=", ".join(known))
            raise ValueError(message)


def _text_to_read(text: Path | None, n_tokens: int) -> Any:
    from benchmarks.sizes import zipf_text

    from ..text.shards import open_corpus

    return open_corpus(text) if text else zipf_text(50_000, n_tokens)


def _speed_row(row: dict[str, Any]) -> list[str]:
    speed = row["tokens_per_second"]
    cells = [row["size"], str(row["threads"]), str(row["batch_size"])]
    cells.append(f"{speed['textbook']:,.0f}")
    for name in ("cold", "warm", "half", "int8"):
        cells.append(_times(speed.get(name), speed["textbook"]))
    other = speed.get("textbook, sorted")
    cells.append(f"{other:,.0f}" if other else "-")
    return [*cells, _times(speed.get("cold, sorted"), other)]


def _times(speed: float | None, base: float | None) -> str:
    return f"{speed:,.0f} ({speed / base:.1f}x)" if speed and base else "-"


def _latency_row(name: str, n: int, latency: dict[str, Any]) -> list[str]:
    base = latency["textbook"]
    cells = [name, str(n), f"{base['p50']:.1f} ms, p95 {base['p95']:.1f}"]
    for column in ("cold", "warm"):
        found = latency[column]
        times = base["p50"] / found["p50"]
        cells.append(f"{found['p50']:.1f} ms ({times:.1f}x), p95 {found['p95']:.1f}")
    return cells
