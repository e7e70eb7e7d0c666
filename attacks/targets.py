"""The kinds of files that are attacked, by name."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from tests.bilm.many_langs import save_many_langs

from . import makers
from .makers import Found


class Target(NamedTuple):
    """A kind of files.

    Attributes:
        make: Writes them into a new folder.
        read: Reads them.
        kind: "own": a changed file is refused, or read as it was. "foreign": or it has
            another fingerprint. "free": it is somebody's text, and may say anything.
        files: Which are attacked, as patterns; all by default.
    """

    make: Callable[[Path], object]
    read: Callable[[Path], Found]
    kind: Literal["own", "foreign", "free"]
    files: tuple[str, ...] = ("**/*",)

    def attacked(self, folder: Path) -> list[Path]:
        """Return the files in a folder that are attacked."""
        found = {path for each in self.files for path in folder.glob(each)}
        return sorted(path for path in found if path.is_file())


TARGETS = {
    "own": Target(makers.make_own, makers.read_own_model, "own"),
    "own-alphabet": Target(makers.make_own_alphabet, makers.read_own_model, "own"),
    "softmax": Target(makers.make_softmax, makers.read_softmax, "own"),
    "words": Target(makers.make_words, makers.read_words, "own"),
    "card": Target(makers.make_card, makers.read_the_card, "free", ("card.json",)),
    "bilm-tf": Target(makers.make_bilm_tf, makers.read_model, "foreign"),
    "bilm-tf-words": Target(makers.make_bilm_tf_words, makers.read_model, "foreign"),
    "bilm-tf-checkpoint": Target(
        makers.make_checkpoint_of_bilm_tf, makers.read_trained_model, "foreign"
    ),
    "tf-hub": Target(makers.make_hub_module, makers.read_model, "foreign"),
    "zip": Target(makers.make_zip, makers.read_zip, "foreign"),
    "many-langs": Target(save_many_langs, makers.read_model, "foreign"),
    "many-langs-legacy": Target(
        makers.make_many_langs_legacy, makers.read_model, "foreign"
    ),
    "prepared": Target(makers.make_prepared, makers.read_prepared, "own"),
    "config": Target(makers.make_run_config, makers.read_run_config, "free"),
    "checkpoint": Target(makers.make_checkpoint, makers.read_checkpoint, "own"),
    "layer-cache": Target(makers.make_layer_cache, makers.read_layer_cache, "own"),
    "pipeline": Target(
        makers.make_pipeline, makers.read_pipeline, "own", ("elmo/model",)
    ),
    "vectors": Target(
        makers.make_vectors,
        makers.read_vectors,
        "own",
        ("vectors/plan.json", "vectors/shards/*"),
    ),
    "text": Target(makers.make_text, makers.read_text, "free"),
}


def make(name: str, folder: Path) -> Target:
    """Write the files of a target into a folder, which is replaced. Return it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    TARGETS[name].make(folder)
    return TARGETS[name]
