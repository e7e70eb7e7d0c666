"""spacy elmo prepare: text to shards that a biLM is trained from."""

import time
from pathlib import Path

import typer
from wasabi import msg

from .group import app, clear_errors


@app.command("prepare")
def prepare_cli(
    text: list[Path] = typer.Argument(
        ..., help="UTF-8 text, .jsonl with a field 'text'; .gz, .xz, .bz2, .zst of them"
    ),
    output: Path = typer.Option(..., "--output", "-o", help="Folder to write"),
    lang: str = typer.Option("en", help="Language of the tokenizer"),
    tokenizer: str = typer.Option("spacy", help="'spacy' or 'whitespace'"),
    sentences: bool = typer.Option(True, help="Split lines at sentence ends"),
    vocab_size: int = typer.Option(50_000, help="Words of the vocabulary at most"),
    min_count: int = typer.Option(1, help="Times a word of it is seen at least"),
    max_tokens: int | None = typer.Option(
        None, help="Read no more than about so many tokens"
    ),
    processes: int = typer.Option(1, "--processes", "-n", help="Tokenise in so many"),
    overwrite: bool = typer.Option(False, help="Replace what was prepared otherwise"),
) -> None:
    """Tokenize text once, and write what training reads. The same command resumes it;
    what it writes does not depend on the number of processes."""
    from ..text.prepare import Request, prepare

    request = Request(lang, tokenizer, sentences, vocab_size, min_count, max_tokens)
    with clear_errors():
        started = time.time()
        manifest = prepare(
            text, output, request, processes=processes, overwrite=overwrite
        )
        counts, seconds = manifest["counts"], time.time() - started
        msg.good(
            f"{counts['tokens']:,} tokens in {counts['sentences']:,} sentences, "
            f"{counts['types']:,} different words; the vocabulary of "
            f"{counts['vocab']:,} covers {counts['coverage']:.1%} of the text"
        )
        speed = counts["tokens"] / seconds
        msg.info(f"{output}: {seconds:,.0f} seconds, {speed:,.0f} tokens/s")
