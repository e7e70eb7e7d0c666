"""Contexts of a word with their labels, from text files and corpora of Docs."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from ..errors import Errors
from ..files import check_plain, coded
from ..text import kind_of, read_lines, sentences_of, tokenize_with
from .neighbours import Context, contexts_of, lines_with

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

    The files are text as `text.reading.read_lines` reads it; `.tsv` files whose lines
    are a label, a tab and a sentence; or `.spacy` files of annotated Docs.

    Raises:
        ValueError: [EL073] There is no such attribute of tokens. [EL084] The word does
            not occur. [EL220] A file holds no Docs.
        ValueError, OSError: As `contexts_of`, `read_lines` and `tokenize_with`.
    """
    if label not in TOKEN_LABELS:
        known = ", ".join(TOKEN_LABELS)
        raise ValueError(Errors.EL073.format(found=label, known=known))

    def read(path: Path) -> Iterator[Labelled]:
        if kind_of(path) == ".spacy":
            return _of_docs(path, word, label)
        if kind_of(path) == ".tsv":
            return _of_table(path, word, lang, tokenizer)
        sentences = tokenize_with(lang, tokenizer, True)
        found = contexts_of(word, sentences(lines_with(word, read_lines(path))))
        return ((context, "") for context in found)

    found = list(islice(chain.from_iterable(map(read, paths)), limit))
    if not found:
        where = ", ".join(map(str, paths))
        raise ValueError(Errors.EL084.format(word=word, where=where))
    labels = [label for _, label in found]
    return [context for context, _ in found], labels if any(labels) else None


def _of_table(path: Path, word: str, lang: str, tokenizer: str) -> Iterator[Labelled]:
    """Yield contexts in lines of a label, a tab and a sentence."""
    tokenize = tokenize_with(lang, tokenizer, False)
    for line in lines_with(word, read_lines(path)):
        label, tab, sentence = line.partition("\t")
        # A line can be more than one sentence: a long word is cut.
        for context in contexts_of(word, tokenize([sentence or label])):
            yield context, label if tab else ""


def _of_docs(path: Path, word: str, label: str) -> Iterator[Labelled]:
    """Yield contexts in sentences of Docs."""
    try:
        check_plain(path)
        file = path.open("rb")
    except OSError as error:
        raise OSError(Errors.EL030.format(path=path, error=error)) from error
    with file, coded(Errors.EL220, path):
        sentences = list(sentences_of(file))
    for _, sentence in sentences:
        kept = [token for token in sentence if not token.text.isspace()]
        for context in contexts_of(word, [[token.text for token in kept]]):
            yield context, getattr(kept[context.position], f"{label}_")
