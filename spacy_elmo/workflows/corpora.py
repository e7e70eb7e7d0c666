"""Corpora that `spacy convert` does not read -> .spacy files; corpora -> text."""

from collections.abc import Iterator
from pathlib import Path

import spacy
import typer
from spacy.tokens import Doc, DocBin
from wasabi import msg

app = typer.Typer()


def read_uner(path: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Words and IOB2 tags of each sentence of a Universal NER file: lines of number,
    word, tag; `#` comments; empty lines between sentences."""
    words: list[str] = []
    tags: list[str] = []
    for line in [*path.read_text(encoding="utf-8").splitlines(), ""]:
        if line.startswith("#"):
            continue
        if line.strip():
            _, word, tag, *_ = line.split("\t")
            words.append(word)
            tags.append(tag)
        elif words:
            yield words, tags
            words, tags = [], []


@app.command("uner")
def uner(source: Path, target: Path, lang: str = "en") -> None:
    """A Universal NER file -> .spacy, a sentence a Doc."""
    vocab = spacy.blank(lang).vocab
    docs = [Doc(vocab, words=words, ents=tags) for words, tags in read_uner(source)]
    target.parent.mkdir(parents=True, exist_ok=True)
    DocBin(docs=docs).to_disk(target)
    msg.good(
        f"{target}: {len(docs):,} sentences, "
        f"{sum(len(doc.ents) for doc in docs):,} entities"
    )


@app.command("text")
def text(source: Path, target: Path, lang: str = "en") -> None:
    """A .spacy file -> its sentences as text, one a line."""
    docs = DocBin().from_disk(source).get_docs(spacy.blank(lang).vocab)
    lines = [sent.text for doc in docs for sent in doc.sents]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    msg.good(f"{target}: {len(lines):,} lines")


if __name__ == "__main__":
    app()
