"""Put a trained biLM where the package looks for it: in half precision, with its
softmax, for who goes on training it, and its whole card."""

from pathlib import Path
from typing import Any

import typer
from wasabi import msg

from spacy_elmo.pretrain.card import read_card
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.pretrain.perplexity import perplexity
from spacy_elmo.text.shards import open_corpus


def main(
    trained: Path = typer.Argument(..., help="Model folder with its softmax"),
    shipped: Path = typer.Argument(..., help="Folder to write"),
    dev: Path = typer.Option(..., help="Held-out text, prepared"),
    test: Path = typer.Option(..., help="The same, not looked at in training"),
    limits: str = typer.Option(..., help="What it is known not to do well"),
) -> None:
    model = LanguageModel.load(trained)
    card: dict[str, Any] = dict(read_card(trained) or {})
    for name, text in (("dev", dev), ("test", test)):
        corpus = open_corpus(text).with_vocab(model.bilm.vocab or [])
        found = perplexity(model, corpus, progress=True)
        card[f"{name}_perplexity"] = found.to_dict()
        msg.good(f"{name}: perplexity {found}")
    card["limits"] = limits
    model.bilm.save(shipped, dtype="float16", softmax=model.softmax, card=card)
    msg.good(f"{shipped}: {_size(shipped):,} bytes")


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


if __name__ == "__main__":
    typer.run(main)
