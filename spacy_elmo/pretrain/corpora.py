"""The corpora of a run: prepared folders, and text files that are prepared for it."""

import shutil
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ..errors import Errors, Warnings
from ..files import named_path
from ..text import (
    Corpus,
    Request,
    is_prepared,
    manifest_hash,
    move,
    open_corpus,
    prepare,
    read_manifest,
    refuse_to_write_over,
)
from .config import PretrainConfig
from .workers import Workers

FOLDER = "text"  # below the output, for text that is prepared here
NEW = ".new-"  # before the name of a text that will replace that of another run
TRAIN, DEV = "train", "dev"
# Training text, dev text, and further held-out text, by name.
Corpora = dict[str, Corpus]


def open_corpora(
    config: PretrainConfig, output: Path, workers: Workers, *, overwrite: bool = False
) -> tuple[Corpora, dict[str, str]]:
    """Return the corpora of a configuration, and a hash of each.

    Text files are prepared below `output`. With `overwrite` they are prepared beside
    the text of another run, until `replace_text` puts them in its place.

    Args:
        config: All settings.
        output: Folder of the run.
        workers: Its processes.
        overwrite: Whether the run replaces another one.

    Raises:
        ValueError: [EL037] Further text is named like training or dev text; [EL043] a
            folder is not a prepared one; also as `prepare` and `open_corpus`.
        OSError: As `prepare`.
    """
    text, vocab = config.text, config.vocab
    also = text.also or {}
    named = {TRAIN: text.train, DEV: text.dev, **also}
    if len(named) < 2 + len(also):
        problem = f"a text of [text.also] can't be named {TRAIN!r} or {DEV!r}"
        raise Errors.EL037(path="text", problem=problem)
    paths = {name: list(map(text.path, sources)) for name, sources in named.items()}
    given = {name: prepared_folder(sources) for name, sources in paths.items()}
    if not workers.is_first:  # the first prepares and checks the whole files
        workers.wait()
    folders: dict[str, Path] = {}
    for name, folder in given.items():
        made = output / FOLDER / name
        if folder is None and workers.is_first:
            _prepare(config, name, paths[name], made, overwrite)
        new = _new(made)
        folders[name] = folder or (new if is_prepared(new) else made)
    opened = {n: open_corpus(f, check=workers.is_first) for n, f in folders.items()}
    if workers.is_first:
        _compare_tokenizers(folders)
        workers.wait()
    limits = dict.fromkeys(opened, text.dev_max_tokens) | {TRAIN: text.max_tokens}
    size = vocab.size or len(opened[TRAIN].vocab)
    corpora = {name: corpus.first(limits[name]) for name, corpus in opened.items()}
    corpora[TRAIN] = corpora[TRAIN].limit_vocab(size, vocab.min_count)
    return corpora, {name: manifest_hash(folder) for name, folder in folders.items()}


def _compare_tokenizers(folders: dict[str, Path]) -> None:
    """Warn [ELW56] if corpora were prepared with different tokenizers."""
    settings = ("lang", "tokenizer", "sentences")
    found = {
        name: ", ".join(
            f"{key} = {read_manifest(folder)['request'].get(key)!r}" for key in settings
        )
        for name, folder in folders.items()
    }
    if len(set(found.values())) > 1:
        how = "; ".join(f"{name} with {values}" for name, values in found.items())
        warnings.warn(Warnings.ELW56(how=how), stacklevel=2)


def _prepare(
    config: PretrainConfig,
    name: str,
    sources: Sequence[Path],
    folder: Path,
    replace: bool,
) -> None:
    """Prepare text files. Text of another run, which is to be replaced, stays until
    nothing can be refused any more: the new text is prepared beside it."""
    text, vocab = config.text, config.vocab
    how, new = (text.lang, text.tokenizer, text.sentences), _new(folder)
    request = Request(*how, max_tokens=text.dev_max_tokens)
    if name == TRAIN:
        size = vocab.size or Request.vocab_size
        request = Request(*how, size, vocab.min_count, text.max_tokens)
    try:
        prepare(sources, folder, request, processes=text.processes)
        shutil.rmtree(new, ignore_errors=True)
    except (Errors.EL041, Errors.EL042):
        if not replace:
            raise
        refuse_to_write_over(sources, folder, overwrite=True)
        prepare(sources, new, request, processes=text.processes, overwrite=True)


def _new(folder: Path) -> Path:
    return folder.with_name(NEW + folder.name)


def replace_text(output: Path) -> None:
    """Put the text that was prepared for a run in the place of another run's."""
    for new in (output / FOLDER).glob(f"{NEW}*"):
        move(new, new.with_name(new.name.removeprefix(NEW)))


def prepared_folder(sources: Sequence[str | Path]) -> Path | None:
    """Return the prepared folder among the sources; None if all are files and folders
    of text. Raises ValueError [EL043] if a prepared folder is not the only source."""
    for path in map(named_path, sources):
        with suppress(PermissionError):  # it is reported when it is read
            if is_prepared(path):
                if len(sources) > 1:
                    raise Errors.EL043(path=path)
                return path
    return None
