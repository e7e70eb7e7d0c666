"""Registered loaders for `[initialize.components.elmo]`."""

from pathlib import Path

from spacy.util import registry

from . import shipped
from .bilm.bilm import BiLM


class WeightsReader:
    """Reads weights when it is called, not when the configuration is read.

    path: model folder in any format; None for the biLM of this package.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def __call__(self) -> BiLM:
        return shipped.load() if self.path is None else BiLM.load(self.path)


@registry.readers("spacy-elmo.WeightsReader.v1")
def configure_weights_reader(path: str | None = None) -> WeightsReader:
    """Weights from a model folder in any format; null for the biLM of this package."""
    return WeightsReader(None if path is None else Path(path))
