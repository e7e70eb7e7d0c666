"""Contexts of a word with labels, from text files and corpora of Docs."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from ..bilm import UnicodeForm, in_form
from ..errors import Errors
from ..text import (
    Reading,
    files_of,
    read_lines,
    read_sentences,
    read_spans,
    suffixes_of,
    tokenizer_of,
)
from .neighbours import Context, contexts_of, may_match

TOKEN_LABELS = ("pos", "tag", "dep", "ent_type", "lemma")
Labelled = tuple[Context, str]


def read_contexts(
    paths: Sequence[Path],
    word: str,
    *,
    kind: str | None = None,
    lang: str = "en",
    tokenizer: str = "spacy",
    label: str = "tag",
    limit: int = 5000,
    form: UnicodeForm | None = None,
) -> tuple[list[Context], list[str] | None]:
    """Return the first contexts of a word in files, and the label of each context, or
    None if no context has a label.

    The files are of any kind that `text` reads, or `.tsv` files, in which a line is a
    label, a tab and a sentence. Labels are in `.tsv` and `.spacy` files. `form` is the
    Unicode form that word and text are turned to. The other arguments are those of
    `spacy elmo explore word`.

    Raises:
        ValueError: [EL073] There is no such attribute of tokens. [EL084] The word does
            not occur.
        ValueError, OSError: As `contexts_of` and `read_sentences`.
    """
    if label not in TOKEN_LABELS:
        known = ", ".join(TOKEN_LABELS)
        raise Errors.EL073(found=label, known=known)

    (word,) = in_form([word], form)
    keep = may_match(word)

    def read(path: Path) -> Iterator[Labelled]:
        suffix, _ = suffixes_of(path)
        if kind == "spacy" or (kind is None and suffix == ".spacy"):
            return _of_docs(path, word, label, form)
        if kind is None and suffix == ".tsv":
            lines = (in_form([line], form)[0] for line in read_lines(path, "text"))
            return _of_table(filter(keep, lines), word, lang, tokenizer)
        found = read_sentences(
            [path], kind=kind, lang=lang, tokenizer=tokenizer, keep=keep, form=form
        )
        return ((context, "") for context in contexts_of(word, found))

    files = [path for path, _ in files_of(paths)]
    found = list(islice(chain.from_iterable(map(read, files)), limit))
    if not found:
        where = ", ".join(map(str, paths))
        raise Errors.EL084(word=word, where=where)
    labels = [label for _, label in found]
    return [context for context, _ in found], labels if any(labels) else None


def _of_table(
    lines: Iterable[str], word: str, lang: str, tokenizer: str
) -> Iterator[Labelled]:
    """Yield labelled contexts from lines of a label, a tab and a sentence."""
    tokenize = tokenizer_of(Reading(lang, tokenizer, split=False))
    for line in lines:
        label, tab, text = line.partition("\t")
        # A line may have several sentences: a long word is cut.
        sentences = [s.tokens for s in next(tokenize([text or label]))]
        for context in contexts_of(word, sentences):
            yield context, label if tab else ""


def _of_docs(
    path: Path, word: str, label: str, form: UnicodeForm | None
) -> Iterator[Labelled]:
    """Yield labelled contexts from the sentences of Docs."""
    for sentence in read_spans(path):
        kept = [token for token in sentence if not token.text.isspace()]
        words = in_form([token.text for token in kept], form)
        for context in contexts_of(word, [words]):
            yield context, getattr(kept[context.position], f"{label}_")
