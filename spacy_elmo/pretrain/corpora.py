"""The corpora of a run: prepared folders as they are, text files prepared beside it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import Errors
from ..text.corpus import Corpus
from ..text.prepare import Request, prepare
from ..text.shards import is_prepared, manifest_hash, open_corpus
from .config import PretrainConfig
from .workers import Workers

FOLDER = "text"  # below the output, for what is prepared here
TRAIN, DEV = "train", "dev"


@dataclass(frozen=True)
class Corpora:
    """Training text, dev text, and further held-out text by name; with a hash of each
    for checkpoints."""

    train: Corpus
    dev: Corpus
    also: dict[str, Corpus]
    hashes: dict[str, str]

    def with_vocab(self, vocab: Sequence[str]) -> "Corpora":
        """Return the same, to be predicted in a given vocabulary."""
        return replace(
            self,
            train=self.train.with_vocab(vocab),
            dev=self.dev.with_vocab(vocab),
            also={name: text.with_vocab(vocab) for name, text in self.also.items()},
        )


def open_corpora(
    config: PretrainConfig, output: Path, workers: Workers, *, overwrite: bool = False
) -> Corpora:
    """Open the corpora that a configuration names.

    Text files are prepared below `output`; `overwrite` replaces what was prepared there
    from other text.

    Raises:
        ValueError: [EL037] Further text is named like training or dev text; [EL043] a
            folder is not a prepared one; also as `prepare` and `open_corpus`.
        OSError: As `prepare`.
    """
    text = config.text
    also = text.also or {}
    paths = {TRAIN: text.train, DEV: text.dev, **also}
    if len(paths) < 2 + len(also):
        problem = f"a text of [text.also] can't be named {TRAIN!r} or {DEV!r}"
        raise ValueError(Errors.EL037.format(path="text", problem=problem))
    folders: dict[str, Path] = {}
    for name, sources in paths.items():
        folder = prepared_folder(sources)
        if folder is None:
            folder = output / FOLDER / name
            if workers.is_first:
                _prepare(config, name, sources, folder, overwrite)
        folders[name] = folder
    if workers.is_first:  # reads and checks the whole files, for all processes
        opened = {name: open_corpus(folder) for name, folder in folders.items()}
    workers.wait()
    if not workers.is_first:
        opened = {name: open_corpus(f, check=False) for name, f in folders.items()}
    size = config.vocab.size or len(opened[TRAIN].vocab)
    train = opened[TRAIN].limit_vocab(size, config.vocab.min_count)
    return Corpora(
        train=train.first(text.max_tokens),
        dev=opened[DEV].first(text.dev_max_tokens),
        also={name: opened[name].first(text.dev_max_tokens) for name in also},
        hashes={name: manifest_hash(folder) for name, folder in folders.items()},
    )


def prepared_folder(sources: Sequence[str | Path]) -> Path | None:
    """Return the prepared folder that is named, None if files are. Raises ValueError
    [EL043] if a folder is not prepared, or not named alone."""
    for name in sources:
        if Path(name).is_dir():
            if len(sources) > 1 or not is_prepared(Path(name)):
                raise ValueError(Errors.EL043.format(path=name))
            return Path(name)
    return None


def _prepare(
    config: PretrainConfig, name: str, sources: list[str], folder: Path, overwrite: bool
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
        [Path(source) for source in sources],
        folder,
        request,
        processes=text.processes,
        overwrite=overwrite,
    )
