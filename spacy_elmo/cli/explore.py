"""spacy elmo explore: pages that show what a biLM or a trained pipeline does."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..output import msg, write_page
from .group import TEXT, GpuId, Lang, Model, Tokenizer, app, clear_errors, load_bilm

if TYPE_CHECKING:
    from ..bilm import BiLM
    from ..bilm.objectives import Objective
    from ..explore import View

explore = typer.Typer(no_args_is_help=True)
app.add_typer(explore, name="explore", help="HTML pages to look into a model.")

OUTPUT = typer.Option("--output", "-o", help="HTML file; '-' is standard output")
Output = Annotated[Path, OUTPUT]
CONTEXTS = (
    f"{TEXT}; .tsv files of lines with a label, a tab and a sentence. .spacy files "
    "have labels, too"
)
LABEL = "Label of a token in a .spacy file: pos, tag, dep, ent_type or lemma"


@explore.command("word")
@clear_errors()
def word_cli(
    model: Model,
    text: list[Path] = typer.Argument(..., help=CONTEXTS),
    word: str = typer.Option(
        ..., help="The word; a regular expression, '배(가|를|는)?' for instance"
    ),
    output: Output = ...,  # type: ignore[assignment]  # typer's "required"
    label: str = typer.Option("tag", help=LABEL),
    max_contexts: int = typer.Option(
        5000, min=1, help="Contexts that are shown, the first ones"
    ),
    lang: Lang = "en",
    tokenizer: Tokenizer = "spacy",
    gpu_id: GpuId = -1,
) -> None:
    """Show all contexts of a word as points of a plane, layer by layer."""
    from ..explore import read_contexts, word_view

    bilm = load_bilm(model, gpu_id)
    contexts, labels = read_contexts(
        text,
        word,
        lang=lang,
        tokenizer=tokenizer,
        label=label,
        limit=max_contexts,
        form=bilm.form,
    )
    about = f"{model.name}, {', '.join(path.name for path in text)}"
    view = word_view(bilm, contexts, labels, word=word, about=about)
    _write(view, output)


@explore.command("sentence")
@clear_errors()
def sentence_cli(
    model: Model,
    sentence: str = typer.Argument(..., help="A sentence"),
    other: str | None = typer.Argument(
        None, help="Another to compare it with; without it, the sentence itself"
    ),
    output: Output = ...,  # type: ignore[assignment]  # typer's "required"
    lang: Lang = "en",
    tokenizer: Tokenizer = "spacy",
    gpu_id: GpuId = -1,
) -> None:
    """Show how alike the tokens of two sentences are, layer by layer, and how well the
    model predicts each, if it has its softmax."""
    from ..explore import sentence_view
    from ..text import tokenizer_of

    tokenize = tokenizer_of(lang, tokenizer, split=False)
    bilm = load_bilm(model, gpu_id)
    texts = bilm.as_read([sentence] if other is None else [sentence, other])
    sentences = [[t for s in found for t in s.tokens] for found in tokenize(texts)]
    softmax = _softmax(model, bilm)
    _write(sentence_view(bilm, *sentences, softmax=softmax, about=model.name), output)


@explore.command("mix")
@clear_errors()
def mix_cli(
    pipeline: str = typer.Argument(..., help="Trained pipeline: folder or package"),
    output: Output = ...,  # type: ignore[assignment]  # typer's "required"
) -> None:
    """Show the share of each layer that every listener of a pipeline has learned."""
    import spacy

    from ..explore import mix_view

    _write(mix_view(spacy.load(pipeline)), output)


def _softmax(model: Path, bilm: "BiLM") -> "Objective | None":
    """Return what a model was trained with, if it is there."""
    from ..bilm import weights

    softmax = weights.load_objective(model, bilm.config, bilm.vocab)
    return None if softmax is None else softmax.to(bilm.device)


def _write(view: "View", output: Path) -> None:
    from ..explore import render

    page = render(view)
    if str(output) == "-":
        write_page(page.html)
        return
    page.save(output)
    msg.good(f"Wrote {output}: {view.title}")
