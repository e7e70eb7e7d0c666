"""spacy elmo prepare, pretrain, perplexity, curve: a biLM from text."""

import time
from pathlib import Path

import typer

from ..output import msg, write_json
from .group import (
    ANY_ARGUMENTS,
    TEXT,
    AsJson,
    GpuId,
    Lang,
    Model,
    Sentences,
    Silent,
    Tokenizer,
    app,
    check_gpu,
    clear_errors,
    device,
)


@app.command("prepare")
@clear_errors()
def prepare_cli(
    text: list[Path] = typer.Argument(..., help=TEXT),
    output: Path = typer.Option(..., "--output", "-o", help="Folder to write"),
    lang: Lang = "en",
    tokenizer: Tokenizer = "spacy",
    sentences: Sentences = True,
    vocab_size: int = typer.Option(
        50_000, min=1, help="Words of the vocabulary at most"
    ),
    min_count: int = typer.Option(1, min=0, help="Times a word of it is seen at least"),
    max_tokens: int | None = typer.Option(
        None, min=1, help="Read no more than about so many tokens"
    ),
    processes: int = typer.Option(
        1, "--processes", "-n", min=1, help="Tokenise in so many"
    ),
    overwrite: bool = typer.Option(False, help="Replace what was prepared otherwise"),
    silent: Silent = False,
) -> None:
    """Tokenize text once, and write what training reads. The same command resumes it;
    what it writes does not depend on the number of processes."""
    from ..text import Request, prepare

    request = Request(lang, tokenizer, sentences, vocab_size, min_count, max_tokens)
    started = time.time()
    how = {"overwrite": overwrite, "progress": not silent}
    manifest = prepare(text, output, request, processes=processes, **how)
    counts, seconds = manifest["counts"], max(time.time() - started, 1e-9)
    msg.good(
        f"{counts['tokens']:,} tokens in {counts['sentences']:,} sentences, "
        f"{counts['types']:,} different words; the vocabulary of "
        f"{counts['vocab']:,} covers {counts['coverage']:.1%} of the text"
    )
    speed = counts["tokens"] / seconds
    msg.info(f"{output}: {seconds:,.0f} seconds, {speed:,.0f} tokens/s")


@app.command("pretrain", context_settings=ANY_ARGUMENTS)
@clear_errors()
def pretrain_cli(
    ctx: typer.Context,
    config: Path = typer.Argument(..., help="Configuration (.cfg)"),
    output: Path = typer.Option(..., "--output", "-o", help="Folder for the models"),
    overwrite: bool = typer.Option(
        False, help="Start from scratch, replacing another run"
    ),
    gpu_id: int | None = typer.Option(
        None, "--gpu-id", "-g", callback=check_gpu, help="GPU ID or -1 for CPU"
    ),
) -> None:
    """Train a biLM, both directions jointly, or resume a run that was stopped.

    Writes model-best and model-last below the output folder, log.jsonl, and a
    checkpoint: the same command resumes from it. Settings of the configuration can be
    replaced: --training.epochs 2 --text.train a.txt. Where there is no spaCy, and
    for several processes: [torchrun --nproc-per-node 2] -m spacy_elmo.pretrain, with
    the same arguments.
    """
    from ..pretrain.__main__ import run

    on = [] if gpu_id is None else ["--training.device", device(gpu_id)]
    overrides = [*ctx.args, *on]
    run(config, output, overwrite=overwrite, overrides=overrides, module="spacy")


@app.command("perplexity")
@clear_errors()
def perplexity_cli(
    model: Model,
    text: list[Path] = typer.Argument(
        ..., help=f"Held-out text: {TEXT}; or one folder that 'prepare' made"
    ),
    lang: Lang = "en",
    tokenizer: Tokenizer = "spacy",
    sentences: Sentences = True,
    max_tokens: int | None = typer.Option(
        None, min=1, help="Read no more than so many tokens"
    ),
    gpu_id: GpuId = -1,
    silent: Silent = False,
    as_json: AsJson = False,
) -> None:
    """Perplexity of held-out text, exact: forward, backward, mean."""
    from ..pretrain import LanguageModel, perplexity, prepared_folder
    from ..text import build_corpus, open_corpus, read_sentences

    language_model = LanguageModel.load(model).to(device(gpu_id))
    vocab = language_model.bilm.vocab or []
    folder = prepared_folder(text)
    if folder is not None:
        corpus = open_corpus(folder).with_vocab(vocab).first(max_tokens)
    else:
        read = read_sentences(
            text,
            lang=lang,
            tokenizer=tokenizer,
            sentences=sentences,
            form=language_model.bilm.form,
        )
        corpus = build_corpus(read, vocab=vocab, max_tokens=max_tokens)
    found = perplexity(language_model, corpus, progress=not (as_json or silent))
    if as_json:
        write_json(found.to_dict())
        return
    table = {
        "forward": f"{found.forward:.2f}",
        "backward": f"{found.backward:.2f}",
        "mean": f"{found.mean:.2f}",
        "bits per character": f"{found.bits_per_character:.3f}",
        "for unknown words": f"{found.spelling_bits:.3f}",
        "tokens": f"{found.tokens:,}",
        "in the vocabulary": f"{found.coverage:.1%}",
    }
    msg.table(table)


@app.command("curve")
@clear_errors()
def curve_cli(
    runs: list[Path] = typer.Argument(..., help="Output folders of 'pretrain'"),
    output: Path = typer.Option(
        Path("curve.png"),
        "--output",
        "-o",
        help="File to write (.png, .svg, .pdf), '-' for stdout",
    ),
) -> None:
    """Loss and dev perplexity against tokens read, of one run or several."""
    from ..pretrain import draw_curve

    draw_curve(runs, output)
    if str(output) != "-":
        msg.good(f"Wrote {output}")
