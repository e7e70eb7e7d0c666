"""Corpora -> .spacy files, a sentence a Doc; .spacy files -> text."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

import spacy
import typer
from spacy.tokens import Doc, DocBin
from spacy.training.converters import conllu_to_docs, iob_to_docs
from spacy.vocab import Vocab
from wasabi import msg

app = typer.Typer()


def uner_to_docs(text: str) -> Iterator[Doc]:
    """Docs of a Universal NER file (IOB2), which spaCy has no converter for: lines of
    number, word, tag; `#` comments; empty lines between sentences."""
    vocab = Vocab()
    for sentence in text.split("\n\n"):
        lines = [line for line in sentence.splitlines() if line and line[0] != "#"]
        if lines:
            columns = [line.split("\t") for line in lines]
            words, tags = [c[1] for c in columns], [c[2] for c in columns]
            yield Doc(vocab, words=words, ents=tags)


def columns_to_docs(text: str) -> Iterator[Doc]:
    """Docs of two columns, word and IOB2 tag, with empty lines between sentences."""
    vocab = Vocab()
    for is_sentence, lines in groupby(
        text.split("\n"), lambda line: bool(line.strip())
    ):
        if is_sentence:
            words, tags = zip(*(line.rsplit("\t", 1) for line in lines))
            yield Doc(vocab, words=list(words), ents=[tag.strip() for tag in tags])


def read_docs(path: Path) -> Iterable[Doc]:
    """Docs of a file, by its ending. Raises ValueError for one that is not known."""
    text = path.read_text(encoding="utf-8").strip("\n")
    if path.suffix == ".iob":
        return iob_to_docs(text, n_sents=1, no_print=True)
    if path.suffix == ".conllu":
        return conllu_to_docs(text, n_sents=1, no_print=True)
    if path.suffix == ".iob2":
        return uner_to_docs(text)
    if path.suffix in (".conll", ".annotated", ".tsv"):
        return columns_to_docs(text)
    raise ValueError(f"{path}: not an .iob, .conllu, .iob2, .conll or .tsv file")


@app.command("convert")
def convert(source: Path, target: Path, upos: bool = False) -> None:
    """A file, or all files of a folder, as one .spacy file. upos: with the universal
    parts of speech as tags."""
    paths = sorted(source.iterdir()) if source.is_dir() else [source]
    docs = [doc for path in paths for doc in read_docs(path)]
    for token in (token for doc in docs if upos for token in doc):
        token.tag_ = token.pos_
    target.parent.mkdir(parents=True, exist_ok=True)
    DocBin(docs=docs, store_user_data=True).to_disk(target)
    n_entities = sum(len(doc.ents) for doc in docs)
    msg.good(f"{target}: {len(docs):,} sentences, {n_entities:,} entities")


@app.command("text")
def text(source: Path, target: Path) -> None:
    """A .spacy file -> its sentences as text, one a line."""
    docs = DocBin().from_disk(source).get_docs(spacy.blank("xx").vocab)
    lines = [doc.text for doc in docs]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    msg.good(f"{target}: {len(lines):,} lines")


if __name__ == "__main__":
    app()
