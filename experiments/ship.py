"""Put a trained biLM where the package looks for it: in half precision, with its
softmax, for who goes on training it, and its whole card.

    python -m experiments.ship en_elmo_sm
"""

from pathlib import Path
from typing import Any

import typer
from wasabi import msg

from spacy_elmo import models as shipped
from spacy_elmo.pretrain.card import read_card
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.pretrain.perplexity import perplexity
from spacy_elmo.text.shards import open_corpus

from .table import read_table


def main(name: str = typer.Argument(..., help="Model of experiments.yml")) -> None:
    row = read_table()["models"][name]
    trained = Path(row["trained"])
    model = LanguageModel.load(trained)
    card: dict[str, Any] = dict(read_card(trained) or {})
    for part in ("dev", "test"):
        corpus = open_corpus(Path(row[part])).with_vocab(model.bilm.vocab or [])
        found = perplexity(model, corpus, progress=True)
        card[f"{part}_perplexity"] = found.to_dict()
        msg.good(f"{part}: perplexity {found}")
    card["limits"] = row["limits"]
    folder = shipped.FOLDER / name
    model.bilm.save(folder, dtype="float16", softmax=model.softmax, card=card)
    size = sum(path.stat().st_size for path in folder.iterdir())
    msg.good(f"{folder}: {size:,} bytes")


if __name__ == "__main__":
    typer.run(main)
