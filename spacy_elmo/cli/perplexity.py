"""spacy elmo perplexity: how well a biLM predicts a text."""

import json
from pathlib import Path

import typer
from wasabi import msg

from .group import app, clear_errors, model_folder


@app.command("perplexity")
def perplexity_cli(
    model: Path = typer.Argument(
        ...,
        callback=model_folder,
        help="Model folder with its softmax, or a name that ships",
    ),
    text: list[Path] = typer.Argument(
        ..., help="Held-out text files, or one folder that 'prepare' made"
    ),
    lang: str = typer.Option("en", help="Language of the tokenizer"),
    tokenizer: str = typer.Option("spacy", help="'spacy' or 'whitespace'"),
    sentences: bool = typer.Option(True, help="Split lines at sentence ends"),
    max_tokens: int | None = typer.Option(
        None, help="Read no more than so many tokens"
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON"),
) -> None:
    """Perplexity of held-out text, exact: forward, backward, mean."""
    from ..pretrain.corpora import prepared_folder
    from ..pretrain.model import LanguageModel
    from ..pretrain.perplexity import perplexity
    from ..text.corpus import build_corpus
    from ..text.reading import read_sentences
    from ..text.shards import open_corpus

    with clear_errors():
        language_model = LanguageModel.load(model)
        vocab = language_model.bilm.vocab or []
        folder = prepared_folder(text)
        if folder is not None:
            corpus = open_corpus(folder).with_vocab(vocab).first(max_tokens)
        else:
            found_sentences = read_sentences(
                text, lang=lang, tokenizer=tokenizer, sentences=sentences
            )
            corpus = build_corpus(found_sentences, vocab=vocab, max_tokens=max_tokens)
        found = perplexity(language_model, corpus, progress=not as_json)
        if as_json:
            typer.echo(json.dumps(found.to_dict()))
        else:
            msg.table(
                {
                    "forward": f"{found.forward:.2f}",
                    "backward": f"{found.backward:.2f}",
                    "mean": f"{found.mean:.2f}",
                    "bits per character": f"{found.bits_per_character:.3f}",
                    "tokens": f"{found.tokens:,}",
                    "in the vocabulary": f"{found.coverage:.1%}",
                }
            )
