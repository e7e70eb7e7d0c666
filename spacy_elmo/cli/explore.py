"""spacy elmo explore: what a biLM or a trained pipeline has learned."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import spacy
import typer

from ..errors import Errors
from ..output import msg, write, write_json, write_page
from . import options
from .group import app, load_bilm, markdown_table
from .renamed import Group

if TYPE_CHECKING:
    from ..bilm import BiLM
    from ..bilm.objectives import Objective
    from ..explore import Context, View

explore = typer.Typer(cls=Group, no_args_is_help=True)
app.add_typer(
    explore, name="explore", help="Tables and HTML pages to look into a model."
)

CONTEXTS = (
    f"{options.TEXT}; .tsv files of lines with a label, a tab and a sentence. .spacy "
    "files have labels, too"
)
LABEL = "Label of a token in a .spacy file: pos, tag, dep, ent_type or lemma"
N_WORDS = 8  # shown beside a table of contexts
HEADER = ("context", "nearest contexts", "cosine")


@explore.command("word")
def word_cli(
    model: options.AnyModel,
    text: list[Path] = typer.Argument(..., help=CONTEXTS),
    word: str = typer.Option(
        ..., help="The word; a regular expression, '배(가|를|는)?' for instance"
    ),
    output: Path | None = typer.Option(
        None,
        "--output",
        "-o",
        help="HTML file to write, or Markdown file (.md) to add the table to; '-' is "
        "standard output. By default the table is printed",
    ),
    format: str | None = typer.Option(
        None, help="page or table, if the name of the file does not say it"
    ),
    context: list[str] = typer.Option(
        [], help="Sentence with the word, for the table; by default some of the text"
    ),
    n_contexts: int = typer.Option(
        4, min=1, help="Rows of the table, if none is given"
    ),
    n_nearest: int = typer.Option(3, min=1, help="Nearest contexts in each row"),
    layer: int = typer.Option(
        -1, help="Layer of the table: 0 is the token layer, -1 the last one"
    ),
    label: str = typer.Option("tag", help=LABEL),
    max_contexts: int = typer.Option(
        5000, min=1, help="Most contexts that are read, from the start of the text"
    ),
    kind: options.Kind = None,
    lang: options.Lang = "en",
    tokenizer: options.Tokenizer = "spacy",
    gpu_id: options.GpuId = -1,
    as_json: options.AsJson = False,
) -> None:
    """Find the contexts in which a word has similar vectors.

    A table shows the nearest contexts of some contexts, as in table 4 of Peters et al.
    (2018). A page shows all contexts as points of a plane, layer by layer.
    """
    from ..explore import (
        contexts_of,
        nearest_contexts,
        read_contexts,
        visible,
        word_view,
    )
    from ..text import Reading, tokenizer_of

    written = _format(output, format, "table", (".md",))
    bilm, softmax = load_bilm(model, gpu_id)
    (word,) = bilm.as_read([word])
    found, labels = read_contexts(
        text,
        word,
        kind=kind,
        lang=lang,
        tokenizer=tokenizer,
        label=label,
        limit=max_contexts,
        form=bilm.form,
    )
    if output is not None and written == "page":
        about = f"{model.name}, {', '.join(path.name for path in text)}"
        _write(word_view(bilm, found, labels, word=word, about=about), output)
        return
    queries = found[:: max(1, len(found) // n_contexts)][:n_contexts]
    if context:
        tokenize = tokenizer_of(Reading(lang, tokenizer, split=False))
        read = ([s.tokens for s in each] for each in tokenize(bilm.as_read(context)))
        queries = [_first(contexts_of(word, s), word, c) for s, c in zip(read, context)]
    near = nearest_contexts(bilm, queries, found, n_nearest, layer)
    cells = [(str(x.context), str(x.nearest), round(x.cosine, 3)) for x in near]
    words = _nearest_words(bilm, softmax, word)
    rows = [(visible(a, None), visible(b, None), f"{c:.3f}") for a, b, c in cells]
    if output is not None:
        _add_table(f"**{word}** ({len(found):,} contexts). {words}", rows, output)
        if str(output) == "-":
            return
    if as_json:
        names = "context", "nearest", "cosine"
        write_json([dict(zip(names, row)) for row in cells])
        return
    msg.info(f"{len(found):,} contexts of '{word}'. {words}")
    msg.table(rows, header=HEADER, divider=True, max_col=80)


@explore.command("sentence")
def sentence_cli(
    model: options.AnyModel,
    sentence: str = typer.Argument(..., help="A sentence"),
    other: str | None = typer.Argument(
        None, help="Another sentence to compare it with; by default the sentence itself"
    ),
    output: Path = typer.Option(
        ..., "--output", "-o", help="HTML file to write; '-' is standard output"
    ),
    lang: options.Lang = "en",
    tokenizer: options.Tokenizer = "spacy",
    gpu_id: options.GpuId = -1,
) -> None:
    """Show how alike the tokens of two sentences are, layer by layer, and how well the
    model predicts each, if it has its softmax."""
    from ..explore import sentence_view
    from ..text import Reading, tokenizer_of

    tokenize = tokenizer_of(Reading(lang, tokenizer, split=False))
    bilm, softmax = load_bilm(model, gpu_id)
    texts = bilm.as_read([sentence] if other is None else [sentence, other])
    sentences = [[t for s in found for t in s.tokens] for found in tokenize(texts)]
    _write(sentence_view(bilm, *sentences, softmax=softmax, about=model.name), output)


@explore.command("mix")
def mix_cli(
    pipeline: str = typer.Argument(..., help="Trained pipeline: folder or package"),
    output: Path | None = typer.Option(
        None,
        "--output",
        "-o",
        help="HTML file or plot (.png, .svg, .pdf) to write; '-' is standard output. "
        "By default the table is printed",
    ),
    format: str | None = typer.Option(
        None, help="page or plot, if the name of the file does not say it"
    ),
    as_json: options.AsJson = False,
) -> None:
    """Show the share of each layer, and gamma, that every listener of a pipeline has
    learned."""
    from ..explore import mix_view
    from ..pipeline import draw_mixes, learned_mixes

    written = _format(output, format, "plot", (".png", ".svg", ".pdf"))
    nlp = spacy.load(pipeline)
    mixes = learned_mixes(nlp)
    if output is not None and written == "page":
        _write(mix_view(nlp), output)
        return
    if output is not None:
        draw_mixes(mixes, output)
        if str(output) == "-":
            return
    if as_json:
        write_json([asdict(mix) for mix in mixes])
        return
    n_layers = max(len(mix.shares) for mix in mixes)
    rows = []
    for mix in mixes:
        numbers = [f"{number:.3f}" for number in (mix.gamma, *mix.shares)]
        numbers += [""] * (n_layers - len(mix.shares))  # another biLM has fewer layers
        rows.append((mix.component, str(mix.place), str(mix.kind), *numbers))
    header = ("component", "listener", "mix", "gamma", *map(str, range(n_layers)))
    msg.table(rows, header=header, divider=True)
    if output is not None:
        msg.good(f"Wrote {output}")


def _format(
    output: Path | None, format: str | None, other: str, suffixes: Sequence[str]
) -> str:
    """Return the format of a file: the one that is asked for, or that of its name.

    Args:
        output: The file; None if none is written.
        format: "page", `other`, or None to tell it from the name.
        other: The format of files that end in one of the suffixes. All others are
            pages.
        suffixes: The suffixes.

    Raises:
        ValueError: [EL073] There is no such format.
    """
    if format not in (None, "page", other):
        raise Errors.EL073(found=format, known=f"page, {other}")
    is_other = output is None or output.suffix in suffixes
    return format or (other if is_other else "page")


def _first(contexts: "Iterator[Context]", word: str, where: str) -> "Context":
    """Return the first context. Raises ValueError [EL084] if there is none."""
    found = next(contexts, None)
    if found is None:
        raise Errors.EL084(word=word, where=where)
    return found


def _nearest_words(bilm: "BiLM", softmax: "Objective | None", word: str) -> str:
    """Return a sentence on the words whose vectors in the softmax are nearest."""
    from ..explore import nearest_words, visible

    if softmax is None or bilm.vocab is None:
        return ""
    words = nearest_words(word, bilm.vocab, softmax.vectors().cpu().numpy(), N_WORDS)
    said = ", ".join(map(visible, words)) or "not in the vocabulary"
    return f"Nearest words without context: {said}"


def _add_table(title: str, rows: Sequence[Sequence[str]], output: Path) -> None:
    """Add a table in Markdown to the end of a file, or print it."""
    from ..files import named_path, write_file

    page = f"{title}\n\n{markdown_table([HEADER, *rows])}\n"
    if str(output) == "-":
        write(page)
        return
    file = named_path(output)
    before = file.read_bytes() if file.is_file() else b""
    write_file(file, lambda path: path.write_bytes(before + page.encode()))


def _write(view: "View", output: Path) -> None:
    from ..explore import render

    page = render(view)
    if str(output) == "-":
        write_page(page.html)
        return
    page.save(output)
    msg.good(f"Wrote {output}: {view.title}")
