"""The texts of a run: prepared folders as they are, text files prepared beside it."""

from dataclasses import dataclass
from pathlib import Path

from ..errors import Errors
from ..text.corpus import Corpus
from ..text.prepare import Request, prepare
from ..text.shards import is_prepared, manifest_hash, open_corpus
from .config import PretrainConfig
from .workers import Workers

TEXTS = "text"  # folder below the output for what is prepared here
TRAIN, DEV = "train", "dev"


@dataclass(frozen=True)
class Texts:
    """train, dev, and the further held-out ones; hashes names what each holds."""

    train: Corpus
    dev: Corpus
    also: dict[str, Corpus]
    hashes: dict[str, str]


def open_texts(
    config: PretrainConfig, output: Path, workers: Workers, *, overwrite: bool = False
) -> Texts:
    """Raises ValueError [EL031-EL034, EL037, EL039-EL043], OSError [EL013, EL030,
    EL044]."""
    text = config.text
    also = text.also or {}
    paths = {TRAIN: text.train, DEV: text.dev, **also}
    if len(paths) < 2 + len(also):
        problem = f"a text of [text.also] can't be named {TRAIN!r} or {DEV!r}"
        raise ValueError(Errors.EL037.format(path="text", problem=problem))
    folders: dict[str, Path] = {}
    for name, files in paths.items():
        folder = prepared_folder(files)
        if folder is None:
            folder = output / TEXTS / name
            if workers.is_first:
                _prepare(config, name, files, folder, overwrite)
        folders[name] = folder
    opened = {}
    if workers.is_first:  # reads and checks the whole files, for all processes
        opened = {name: open_corpus(folder) for name, folder in folders.items()}
    workers.wait()
    if not workers.is_first:
        opened = {name: open_corpus(f, check=False) for name, f in folders.items()}
    size = config.vocab.size or len(opened[TRAIN].vocab)
    train = opened[TRAIN].limit_vocab(size, config.vocab.min_count)
    return Texts(
        train=train.first(text.max_tokens),
        dev=opened[DEV].first(text.dev_max_tokens),
        also={name: opened[name].first(text.dev_max_tokens) for name in also},
        hashes={name: manifest_hash(folder) for name, folder in folders.items()},
    )


def prepared_folder(files: list[str]) -> Path | None:
    """The folder, if that is what is named. Raises ValueError [EL043] if it is not a
    prepared one, or not alone."""
    for name in files:
        if Path(name).is_dir():
            if len(files) > 1 or not is_prepared(Path(name)):
                raise ValueError(Errors.EL043.format(path=name))
            return Path(name)
    return None


def _prepare(
    config: PretrainConfig, name: str, files: list[str], folder: Path, overwrite: bool
) -> None:
    text, is_train = config.text, name == TRAIN
    request = Request(
        lang=text.lang,
        tokenizer=text.tokenizer,
        sentences=text.sentences,
        vocab_size=(is_train and config.vocab.size) or Request.vocab_size,
        min_count=config.vocab.min_count if is_train else 1,
        max_tokens=text.max_tokens if is_train else text.dev_max_tokens,
    )
    prepare(
        [Path(file) for file in files],
        folder,
        request,
        processes=text.processes,
        overwrite=overwrite,
    )
