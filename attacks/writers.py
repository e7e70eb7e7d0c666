"""Everything that writes files, by name: how, over what, and how it is read."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import spacy

from spacy_elmo import BiLM, embed
from spacy_elmo.pipeline.cache import FileCache
from spacy_elmo.pretrain import checkpoint
from spacy_elmo.text import Request, prepare
from tests.embed.corpora import SMALL, save_model, write_lines
from tests.models import tiny_config
from tests.pipelines import add_elmo

from . import makers


class Writer(NamedTuple):
    """What writes files into a folder.

    Attributes:
        old: Makes what is there before.
        new: Writes in its place. This is what is attacked.
        read: Returns what is there, and raises if it can't be read.
    """

    old: Callable[[Path], object]
    new: Callable[[Path], object]
    read: Callable[[Path], str]


def _save(seed: int, format: str) -> Callable[[Path], object]:
    bilm = BiLM.random(tiny_config(), seed=seed, vocab=makers.VOCAB)
    return lambda folder: bilm.save(folder, format=format)


def _save_checkpoint(step: int) -> Callable[[Path], object]:
    model, learners = makers.small_training()
    state = model.bilm.zero_state(2)
    progress = makers.progress_at(step)
    return lambda folder: checkpoint.save(folder, model, learners, state, progress)


def _fill_cache(part: slice) -> Callable[[Path], None]:
    some = dict(list(makers.CACHED.items())[part])

    def fill(folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        cache = FileCache(folder / "layers.sqlite", 64 << 20)
        cache.write(some)
        cache.close()

    return fill


def _fingerprint(folder: Path) -> str:
    return BiLM.load(folder).fingerprint()


def _save_pipeline(seed: int) -> Callable[[Path], object]:
    nlp = spacy.blank("xx")
    add_elmo(nlp, seed=seed)
    return nlp.to_disk


def _save_component(seed: int) -> Callable[[Path], object]:
    elmo = add_elmo(spacy.blank("xx"), seed=seed)
    return lambda folder: elmo.to_disk(folder, exclude=["vocab"])


def _component(folder: Path) -> str:
    elmo = add_elmo(spacy.blank("xx"), seed=3)
    return str(elmo.from_disk(folder, exclude=["vocab"]).fingerprint())


def _prepare(number: int) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        text = folder.with_name(f"text{number}.txt")
        if not text.exists():
            text.write_text(f"Text {number} 고양이 .\n" * 30)
        request = Request(tokenizer="whitespace")
        prepare([text], folder, request, overwrite=True, progress=False)

    return write


WRITERS: dict[str, Callable[[], Writer]] = {
    "model": lambda: Writer(
        _save(1, "spacy-elmo"), _save(2, "spacy-elmo"), _fingerprint
    ),
    "checkpoint": lambda: Writer(
        _save_checkpoint(1),
        _save_checkpoint(2),
        lambda folder: str(checkpoint.read_progress(folder)),
    ),
    "pipeline": lambda: Writer(  # beside the component is spaCy's, written in place
        _save_pipeline(1), _save_pipeline(2), lambda folder: _component(folder / "elmo")
    ),
    "component": lambda: Writer(_save_component(1), _save_component(2), _component),
    "prepared text": lambda: Writer(
        _prepare(1), _prepare(2), lambda folder: makers.read_prepared(folder).value
    ),
    "layer cache": lambda: Writer(
        _fill_cache(slice(0, 20)),
        _fill_cache(slice(20, 40)),
        lambda folder: makers.read_layer_cache(folder).value,
    ),
}


def _unfinished(folder: Path) -> None:
    folder.mkdir()
    text = write_lines(folder / "text.txt", 6)
    save_model(folder / "model")
    embed.make_plan(str(folder / "model"), [text], folder / "vectors", PLANNED)


def _vectors(folder: Path) -> str:
    try:
        return makers.read_vectors(folder).value
    except (makers.Refused, OSError) as error:
        assert "[EL2" in str(error)  # noqa: PT017 (no pytest here)
        return "unfinished"


PLANNED = embed.Options(shard_mb=SMALL)
# They resume by shards, and have kills of their own in tests/embed.
VECTORS = Writer(_unfinished, lambda folder: embed.run(folder / "vectors"), _vectors)
