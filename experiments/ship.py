"""Put a trained biLM where its package has it: in half precision, with its softmax,
for who goes on training it, and its card, as JSON and as Markdown. English and Korean
are in the package itself, others in packages of their own, in the folder `models`. The
sources of the text are written beside it by hand, in ATTRIBUTION.md.

    python . ship en_elmo_sm

in this folder, since experiments.yml names the trained models relative to it.
"""

from pathlib import Path
from typing import Any

import typer
from wasabi import msg

from benchmarks.speed import read_sentences
from spacy_elmo import models as shipped
from spacy_elmo.models import read_card
from spacy_elmo.models.model_card import PAGE
from spacy_elmo.pretrain import perplexity
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.text.shards import open_corpus

from .model_page import render
from .rescale import N_TOKENS, scale_token_layer
from .table import read_table


def main(name: str = typer.Argument(..., help="Model of experiments.yml")) -> None:
    rows = read_table()["models"]
    if name not in rows:
        msg.fail(f"'{name}' is none of {', '.join(rows)}", exits=1)
    row = rows[name]
    trained = Path(row["trained"])
    model = LanguageModel.load(trained)
    scale = scale_token_layer(model.bilm, read_sentences(Path(row["dev"]), N_TOKENS))
    msg.info(f"the token layer is multiplied by {scale:g}")
    card: dict[str, Any] = dict(read_card(trained) or {})
    for part in ("dev", "test"):
        corpus = open_corpus(Path(row[part])).with_vocab(model.bilm.vocab or [])
        found = perplexity(model, corpus, progress=True)
        card[f"{part}_perplexity"] = found.to_dict()
        msg.good(f"{part}: perplexity {found}")
    card |= {"version": row["version"], "limits": row["limits"]}
    folder = folder_of(name)
    model.bilm.save(folder, dtype="float16", softmax=model.softmax, card=card)
    write_page(name)
    size = sum(path.stat().st_size for path in folder.iterdir())
    msg.good(f"{folder}: {size:,} bytes")


def folder_of(name: str) -> Path:
    """Return the folder that a model is put into."""
    if name in shipped.MODELS.values():
        return shipped.FOLDER / name
    return Path(__file__).parents[1] / "models" / name / name


def write_page(name: str) -> None:
    """Write the card of a shipped model as Markdown."""
    lang, folder = name.partition("_")[0], folder_of(name)
    package = "spacy-elmo" if lang in shipped.MODELS else shipped.PACKAGES[lang]
    page = "".join(render(name, lang, read_card(folder) or {}, package))
    (folder / PAGE).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
