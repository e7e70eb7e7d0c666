"""Registered loaders for `[initialize.components.elmo]`."""

from collections.abc import Callable
from pathlib import Path

from spacy.util import registry

from .bilm.bilm import BiLM
from .shipped import load as load_shipped


@registry.readers("spacy-elmo.WeightsReader.v1")
def configure_weights_reader(path: str | None = None) -> Callable[[], BiLM]:
    """Weights from a model folder in any format; null for the biLM of this package.

    Read when the pipeline is initialised, not when the configuration is.
    """

    def read_weights() -> BiLM:
        return load_shipped() if path is None else BiLM.load(Path(path))

    return read_weights
