"""spacy elmo neighbours: in which contexts a word has the most similar vectors."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..output import msg, write, write_json
from .group import (
    TEXT,
    AsJson,
    GpuId,
    Lang,
    Model,
    Tokenizer,
    app,
    clear_errors,
    load_bilm,
    markdown_table,
)

if TYPE_CHECKING:
    from ..bilm import BiLM
    from ..explore import Context

N_WORDS = 8  # shown beside the contexts
HEADER = ("context", "nearest contexts", "cosine")


@app.command("neighbours")
@clear_errors()
def neighbours_cli(
    model: Model,
    text: list[Path] = typer.Argument(..., help=TEXT),
    word: str = typer.Option(
        ..., help="The word; a regular expression, '배(가|를|는)?' for instance"
    ),
    context: list[str] = typer.Option(
        [], help="A sentence with it to compare with; else some of the text"
    ),
    n_contexts: int = typer.Option(4, min=1, help="How many of them"),
    max_contexts: int = typer.Option(
        5000, min=1, help="Contexts of the text that are looked at, the first ones"
    ),
    n: int = typer.Option(3, "--n", min=1, help="Nearest contexts of each"),
    layer: int = typer.Option(-1, help="0 is the token layer, -1 the last one"),
    lang: Lang = "en",
    tokenizer: Tokenizer = "spacy",
    output: Path | None = typer.Option(
        None, "--output", "-o", help="Markdown file to add the table to, '-' for stdout"
    ),
    gpu_id: GpuId = -1,
    as_json: AsJson = False,
) -> None:
    """Nearest contexts of a word, as in the paper's table 4."""
    from ..explore import contexts_of, nearest_contexts, read_contexts
    from ..files import write_file
    from ..text import tokenizer_of

    bilm = load_bilm(model, gpu_id)
    (word,) = bilm.as_read([word])
    found, _ = read_contexts(
        text,
        word,
        lang=lang,
        tokenizer=tokenizer,
        limit=max_contexts,
        form=bilm.form,
    )
    queries = found[:: max(1, len(found) // n_contexts)][:n_contexts]
    if context:
        tokenize = tokenizer_of(lang, tokenizer, split=False)
        read = ([s.tokens for s in each] for each in tokenize(bilm.as_read(context)))
        queries = [_first(contexts_of(word, s), word, c) for s, c in zip(read, context)]
    near = nearest_contexts(bilm, queries, found, n, layer)
    words = _nearest_words(bilm, model, word)
    table = [(str(x.context), str(x.nearest), f"{x.cosine:.3f}") for x in near]
    if output is not None:
        page = f"**{word}** ({len(found):,} contexts). {words}\n\n"
        page += f"{markdown_table([HEADER, *table])}\n"
        if str(output) == "-":
            write(page)
            return
        before = output.read_bytes() if output.is_file() else b""
        write_file(output, lambda path: path.write_bytes(before + page.encode()))
    if as_json:
        rows = [{"context": a, "nearest": b, "cosine": float(c)} for a, b, c in table]
        write_json(rows)
        return
    msg.info(f"{len(found):,} contexts of '{word}'. {words}")
    msg.table(table, header=HEADER, divider=True, max_col=80)


def _first(contexts: "Iterator[Context]", word: str, where: str) -> "Context":
    """Return the first context. Raises ValueError [EL084] if there is none."""
    from ..errors import Errors

    found = next(contexts, None)
    if found is None:
        raise ValueError(Errors.EL084.format(word=word, where=where))
    return found


def _nearest_words(bilm: "BiLM", model: Path, word: str) -> str:
    """Return what the softmax, if there is one, says of a word without its context."""
    from ..bilm import weights
    from ..explore import nearest_words

    softmax = weights.load_objective(model, bilm.config, bilm.vocab)
    if softmax is None or bilm.vocab is None:
        return ""
    words = nearest_words(word, bilm.vocab, softmax.vectors().numpy(), N_WORDS)
    return (
        f"Nearest words without context: {', '.join(words) or 'not in the vocabulary'}"
    )
