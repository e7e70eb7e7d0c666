"""Contexts of a word with their labels, from text files and corpora of Docs."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from ..bilm.neighbours import Context, contexts_of, may_match
from ..errors import Errors
from ..text import (
    files_of,
    read_lines,
    read_sentences,
    read_spans,
    suffixes_of,
    tokenizer_of,
)

TOKEN_LABELS = ("pos", "tag", "dep", "ent_type", "lemma")
Labelled = tuple[Context, str]


def read_contexts(
    paths: Sequence[Path],
    word: str,
    *,
    lang: str = "en",
    tokenizer: str = "spacy",
    label: str = "tag",
    limit: int = 5000,
) -> tuple[list[Context], list[str] | None]:
    """Return the first contexts of a word in files, and a label for each, or None if no
    context has one. The other arguments are those of `spacy elmo explore word`.

    The files are text of any kind that `text` reads, in which `.spacy` files have
    labels, or `.tsv` files whose lines are a label, a tab and a sentence.

    Raises:
        ValueError: [EL073] There is no such attribute of tokens. [EL084] The word does
            not occur.
        ValueError, OSError: As `contexts_of` and `read_sentences`.
    """
    if label not in TOKEN_LABELS:
        known = ", ".join(TOKEN_LABELS)
        raise ValueError(Errors.EL073.format(found=label, known=known))

    def read(path: Path) -> Iterator[Labelled]:
        suffix, _ = suffixes_of(path)
        if suffix == ".spacy":
            return _of_docs(path, word, label)
        if suffix == ".tsv":
            return _of_table(path, word, lang, tokenizer)
        keep = may_match(word)
        read = read_sentences([path], lang=lang, tokenizer=tokenizer, keep=keep)
        return ((context, "") for context in contexts_of(word, read))

    files = [path for path, _ in files_of(paths)]
    found = list(islice(chain.from_iterable(map(read, files)), limit))
    if not found:
        where = ", ".join(map(str, paths))
        raise ValueError(Errors.EL084.format(word=word, where=where))
    labels = [label for _, label in found]
    return [context for context, _ in found], labels if any(labels) else None


def _of_table(path: Path, word: str, lang: str, tokenizer: str) -> Iterator[Labelled]:
    """Yield contexts in lines of a label, a tab and a sentence."""
    tokenize = tokenizer_of(lang, tokenizer, split=False)
    for line in filter(may_match(word), read_lines(path, "text")):
        label, tab, text = line.partition("\t")
        # A line can be more than one sentence: a long word is cut.
        sentences = [s.tokens for s in next(tokenize([text or label]))]
        for context in contexts_of(word, sentences):
            yield context, label if tab else ""


def _of_docs(path: Path, word: str, label: str) -> Iterator[Labelled]:
    """Yield contexts in sentences of Docs."""
    for sentence in read_spans(path):
        kept = [token for token in sentence if not token.text.isspace()]
        for context in contexts_of(word, [[token.text for token in kept]]):
            yield context, getattr(kept[context.position], f"{label}_")
