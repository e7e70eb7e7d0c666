"""Treebanks in spaCy's format: a paragraph a Doc, with its original spacing.

A paragraph begins where the treebank says so (`# newdoc`, `# newpar`). In a treebank
whose sentences have no order, a Doc has a few of them on end. The entities of Universal
NER are merged in, sentence by sentence.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training import Example, biluo_tags_to_spans
from spacy.training.converters import conllu_to_docs
from spacy.util import registry
from wasabi import msg

from spacy_elmo.files import write_files

from ..corpora import uner_to_docs

SENTENCES = 5  # of a Doc, where the treebank has no paragraphs
_ID = re.compile(r"^# sent_id = (.+)$", re.MULTILINE)
_NEW = re.compile(r"^# new(doc|par)\b", re.MULTILINE)


def paragraphs(treebank: str, entities: str | None = None) -> Iterator[Doc]:
    """Yield the paragraphs of a treebank, with all its layers.

    Args:
        treebank: Text of a CoNLL-U file.
        entities: Text of a Universal NER file (IOB2) of the same sentences.
    """
    texts = treebank.strip("\n").split("\n\n")
    layer = {} if entities is None else _entities_by_sentence(entities)
    has_paragraphs = _NEW.search(treebank) is not None
    group: list[Doc] = []
    sentences = conllu_to_docs("\n\n".join(texts), n_sents=1, no_print=True)
    for number, (text, doc) in enumerate(zip(texts, sentences, strict=True)):
        starts = _NEW.search(text) if has_paragraphs else number % SENTENCES == 0
        if starts and group:
            yield Doc.from_docs(group, ensure_whitespace=not has_paragraphs)
            group = []
        if entities is not None:
            _add_entities(doc, layer.get(_id_of(text)))
        group.append(doc)
    yield Doc.from_docs(group, ensure_whitespace=not has_paragraphs)


def _entities_by_sentence(text: str) -> dict[str, Doc]:
    return dict(zip(_ID.findall(text), uner_to_docs(text), strict=True))


def _id_of(text: str) -> str:
    found = _ID.search(text)
    return "" if found is None else found[1]


def _add_entities(doc: Doc, source: Doc | None) -> None:
    """Set the entities of a sentence whose tokens may be split otherwise. Where the
    source lacks it, or has other letters, its entities are unknown."""
    if source is None or _letters(source) != _letters(doc):
        doc.set_ents([], default="missing")
        return
    for entity in source.ents:  # each Doc has a vocabulary of its own
        doc.vocab.strings.add(entity.label_)
    tags = Example(doc, source).get_aligned_ner()
    known = ["O" if tag is None else tag for tag in tags]
    doc.set_ents(biluo_tags_to_spans(doc, known), default="outside")


def _letters(doc: Doc) -> str:
    return "".join(token.text for token in doc)


def convert(treebank: Path, target: Path, entities: Path | None = None) -> None:
    """Write a part of a treebank as a .spacy file."""
    texts = [path.read_text(encoding="utf-8") for path in (treebank, entities) if path]
    write(paragraphs(*texts), target)


def write(paragraphs: Iterable[Doc], target: Path) -> None:
    docs = list(paragraphs)
    write = partial(Path.write_bytes, data=DocBin(docs=docs).to_bytes())
    write_files(target.parent, {target.name: write})
    n_sentences = sum(1 for doc in docs for _ in doc.sents)
    n_entities = sum(len(doc.ents) for doc in docs)
    found = f"{len(docs):,} Docs, {n_sentences:,} sentences, {n_entities:,} entities"
    msg.good(f"{target}: {found}")


@registry.readers("experiments.Pieces.v1")
def make_reader(path: Path, words: int) -> Callable[[Language], list[Example]]:
    """Return a reader that divides Docs at their sentences, for training alone: the
    parser takes as many steps an update as the longest Doc has moves.

    Args:
        path: A .spacy file.
        words: Of a piece at most; but a longer sentence is a piece too.
    """
    found: list[Example] = []

    def read(nlp: Language) -> list[Example]:
        if not found:  # every component asks for labels
            docs = DocBin().from_disk(path).get_docs(nlp.vocab)
            pieces = (piece for doc in docs for piece in _pieces(doc, words))
            found.extend(Example(nlp.make_doc(piece.text), piece) for piece in pieces)
        return found

    return read


def _pieces(doc: Doc, words: int) -> Iterator[Doc]:
    start = end = 0
    for sentence in doc.sents:
        if end > start and sentence.end - start > words:
            yield doc[start:end].as_doc()
            start = end
        end = sentence.end
    yield doc[start:end].as_doc()
