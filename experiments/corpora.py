"""Convert corpora, as they are published, to spaCy's format, a sentence a Doc.

    python -m experiments.corpora FOLDER

makes FOLDER/NAME/{train,dev,test}.spacy of every corpus of experiments.yml whose files
are in the folder.
"""

import csv
from collections.abc import Iterable, Iterator
from io import StringIO
from itertools import groupby
from pathlib import Path
from typing import Any

import spacy
import typer
from spacy.tokens import Doc, DocBin
from spacy.training import biluo_to_iob, iob_to_biluo
from spacy.training.converters import conllu_to_docs
from spacy.vocab import Vocab
from wasabi import msg

from .table import PARTS, read_table

# Of newspapers: ends of sentences, their longest length, and entities.
ENDS, LONGEST, KINDS = {".", "!", "?"}, 60, {"PER", "LOC", "ORG"}


def uner_to_docs(text: str) -> Iterator[Doc]:
    """Yield Docs of a Universal NER file (IOB2), which spaCy has no converter for:
    lines of number, word, tag; `#` comments; empty lines between sentences."""
    vocab = Vocab()
    for sentence in text.split("\n\n"):
        lines = [line for line in sentence.splitlines() if line and line[0] != "#"]
        if lines:
            columns = [line.split("\t") for line in lines]
            words, tags = [c[1] for c in columns], [c[2] for c in columns]
            yield Doc(vocab, words=words, ents=tags)


def columns_to_docs(text: str) -> Iterator[Doc]:
    """Yield Docs of two columns, word and IOB2 tag, with empty lines between
    sentences."""
    vocab = Vocab()
    for is_sentence, lines in groupby(
        text.split("\n"), lambda line: bool(line.strip())
    ):
        if is_sentence:
            words, tags = zip(*(line.rsplit("\t", 1) for line in lines))
            yield Doc(vocab, words=list(words), ents=[tag.strip() for tag in tags])


def newspapers_to_docs(text: str) -> Iterator[Doc]:
    """Yield Docs of the Europeana corpora of old newspapers: a word and its tag a line,
    without an end of a sentence, and tags that begin with I where no entity of the kind
    is before. A sentence ends with a mark, or after `LONGEST` words."""
    vocab = Vocab()
    words: list[str] = []
    tags: list[str] = []
    for line in text.split("\n"):
        word, _, tag = line.strip().rpartition(" ")
        if not word or line.startswith("#"):
            continue
        words.append(word)
        tags.append(tag if tag[2:] in KINDS else "O")
        if word in ENDS or len(words) == LONGEST:
            yield Doc(vocab, words=words, ents=_begun(tags))
            words, tags = [], []
    if words:
        yield Doc(vocab, words=words, ents=_begun(tags))


def _begun(tags: list[str]) -> list[str]:
    """Return tags of which the first one of each entity begins with B."""
    return biluo_to_iob(iob_to_biluo(tags))


def categories_to_docs(text: str) -> Iterator[Doc]:
    """Yield Docs of a table (CSV) with columns text and category, one of all that the
    table has."""
    rows = list(csv.DictReader(StringIO(text, newline="")))
    others = dict.fromkeys((row["category"] for row in rows), 0.0)
    nlp = spacy.blank("en")
    for row in rows:
        doc = nlp.make_doc(row["text"])
        doc.cats = {**others, row["category"]: 1.0}
        yield doc


def read_docs(path: Path, *, as_written: bool = False) -> Iterable[Doc]:
    """Return the Docs of a file, by its ending. as_written: Words that a treebank takes
    apart, such as "zum", are one token, as in the text."""
    text = path.read_text(encoding="utf-8").strip("\n")
    if path.suffix == ".conllu":
        merge = {"merge_subtokens": as_written}
        return conllu_to_docs(text, n_sents=1, no_print=True, **merge)
    if path.suffix == ".bio":
        return newspapers_to_docs(text)
    if path.suffix == ".iob2":
        return uner_to_docs(text)
    if path.suffix in (".conll", ".annotated", ".tsv"):
        return columns_to_docs(text)
    if path.suffix == ".csv":
        return categories_to_docs(text)
    raise ValueError(f"{path}: not a .conllu, .iob2, .bio, .conll, .tsv or .csv file")


def part_of(docs: list[Doc], part: str, row: dict[str, Any]) -> list[Doc]:
    """Return the Docs of a part. Where train and dev are one file, every tenth sentence
    is dev's; where test is that file, too, its last tenth is test's."""
    if row["train"] != row["dev"]:
        return docs
    if row["test"] == row["train"]:
        end = len(docs) * 9 // 10
        docs = docs[end:] if part == "test" else docs[:end]
    if part == "test":
        return docs
    return [doc for n, doc in enumerate(docs) if (n % 10 == 0) == (part == "dev")]


def convert(source: Path, target: Path, part: str, row: dict[str, Any]) -> None:
    """Write a part of a corpus, a row of the table, as a .spacy file."""
    read = read_docs(source, as_written=row.get("as_written", False))
    docs = part_of(list(read), part, row)
    if row.get("universal_tags"):
        for token in (token for doc in docs for token in doc):
            token.tag_ = token.pos_
    target.parent.mkdir(parents=True, exist_ok=True)
    DocBin(docs=docs, store_user_data=True).to_disk(target)
    n_entities = sum(len(doc.ents) for doc in docs)
    msg.good(f"{target}: {len(docs):,} sentences, {n_entities:,} entities")


def main(folder: Path = typer.Argument(..., help="Folder with the corpora")) -> None:
    """Convert every corpus whose files are in the folder."""
    n_converted = 0
    for name, row in read_table()["corpora"].items():
        missing = [row[part] for part in PARTS if not (folder / row[part]).exists()]
        if missing:
            msg.warn(f"{name} is left out: there is no {', '.join(missing)}")
            continue
        n_converted += 1
        for part in PARTS:
            convert(folder / row[part], folder / name / f"{part}.spacy", part, row)
    if not n_converted:
        msg.fail(f"'{folder}' has the files of no corpus", exits=1)


if __name__ == "__main__":
    typer.run(main)
