"""spacy elmo prepare, pretrain, perplexity, curve: train a biLM, and measure it."""

import time
from pathlib import Path
from typing import Annotated

import typer

from ..errors import Errors
from ..output import msg, write_json
from . import options
from .group import app, load_bilm


@app.command("prepare")
def prepare_cli(
    text: options.Text,
    output: Path = typer.Option(..., "--output", "-o", help="Folder to write"),
    kind: options.Kind = None,
    lang: options.Lang = "en",
    tokenizer: options.Tokenizer = "spacy",
    sentences: options.Sentences = True,
    vocab_size: int = typer.Option(50_000, min=1, help="Most words of the vocabulary"),
    min_count: int = typer.Option(
        1, min=0, help="Least occurrences of a word of the vocabulary"
    ),
    max_tokens: int | None = typer.Option(
        None, min=1, help="Stop after about this number of tokens"
    ),
    n_process: options.NProcess = 1,
    force: options.Force = False,
    silent: options.Silent = False,
) -> None:
    """Tokenize text once, and write it as training reads it.

    The same command continues a run that was stopped. The number of processes does not
    change what is written.
    """
    from ..text import Request, prepare

    request = Request(lang, tokenizer, sentences, vocab_size, min_count, max_tokens)
    started = time.time()
    manifest = prepare(
        text,
        output,
        request,
        kind=kind,
        processes=n_process,
        overwrite=force,
        progress=not silent,
    )
    counts, seconds = manifest["counts"], max(time.time() - started, 1e-9)
    msg.good(
        f"{counts['tokens']:,} tokens in {counts['sentences']:,} sentences, "
        f"{counts['types']:,} different words; the vocabulary of "
        f"{counts['vocab']:,} covers {counts['coverage']:.1%} of the text"
    )
    speed = counts["tokens"] / seconds
    msg.info(f"{output}: {seconds:,.0f} seconds, {speed:,.0f} tokens/s")


@app.command("pretrain", context_settings=options.ANY_ARGUMENTS)
def pretrain_cli(
    ctx: typer.Context,
    config: Path = typer.Argument(..., help="Configuration (.cfg)"),
    output: Path = typer.Option(..., "--output", "-o", help="Folder for the models"),
    force: options.Force = False,
    gpu_id: Annotated[int | None, options.GPU] = None,
) -> None:
    """Train both directions of a biLM, or resume a run that was stopped.

    The output folder gets model-best, model-last, log.jsonl and a checkpoint, from
    which the same command resumes. Options replace settings of the configuration:
    --training.epochs 2 --text.train a.txt. Without spaCy, or with several processes,
    the command is [torchrun --nproc-per-node 2] -m spacy_elmo.pretrain, with the same
    arguments.
    """
    from ..machine import device_name
    from ..pretrain.__main__ import run

    on = [] if gpu_id is None else ["--training.device", device_name(gpu_id)]
    overrides = [*ctx.args, *on]
    run(config, output, overwrite=force, overrides=overrides, module="spacy")


@app.command("perplexity")
def perplexity_cli(
    model: options.AnyModel,
    text: list[Path] = typer.Argument(
        ..., help=f"Held-out text: {options.TEXT}; or one folder that 'prepare' made"
    ),
    kind: options.Kind = None,
    lang: options.Lang = "en",
    tokenizer: options.Tokenizer = "spacy",
    sentences: options.Sentences = True,
    max_tokens: int | None = typer.Option(
        None, min=1, help="Stop after this number of tokens"
    ),
    gpu_id: options.GpuId = -1,
    silent: options.Silent = False,
    as_json: options.AsJson = False,
) -> None:
    """Measure the exact perplexity of held-out text: forward, backward, and mean.

    The biLM of a pipeline is measured with the softmax of the weights that it was
    fine-tuned from.
    """
    from ..pretrain import LanguageModel, perplexity, prepared_folder
    from ..text import build_corpus, check_vocab, open_corpus, read_sentences

    bilm, softmax = load_bilm(model, gpu_id)
    if softmax is None or bilm.vocab is None:
        raise Errors.EL036(path=model)
    check_vocab(bilm.vocab, model)
    language_model = LanguageModel(bilm, softmax).eval()
    folder = prepared_folder(text)
    if folder is not None:
        corpus = open_corpus(folder).with_vocab(bilm.vocab).first(max_tokens)
    else:
        read = read_sentences(
            text,
            kind=kind,
            lang=lang,
            tokenizer=tokenizer,
            sentences=sentences,
            form=bilm.form,
        )
        corpus = build_corpus(read, vocab=bilm.vocab, max_tokens=max_tokens)
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
def curve_cli(
    runs: list[Path] = typer.Argument(..., help="Output folders of 'pretrain'"),
    output: Path = typer.Option(
        Path("curve.png"),
        "--output",
        "-o",
        help="File to write (.png, .svg, .pdf), '-' for stdout",
    ),
) -> None:
    """Draw loss and dev perplexity of one run or several, against the tokens read."""
    from ..pretrain import draw_curve

    draw_curve(runs, output)
    if str(output) != "-":
        msg.good(f"Wrote {output}")
