"""What a configuration can name in [initialize]: weights."""

from pathlib import Path

from spacy.util import registry

from .. import models as shipped
from ..bilm import BiLM


class WeightsReader:
    """Reads weights when it is called, not when the configuration is read, from where
    they are then."""

    def __init__(self, path: str | Path | None) -> None:
        # None for what the component loads itself
        self.path = None if path is None else str(shipped.locate(path))

    def __call__(self) -> BiLM:
        """Return the biLM. Raises as `models.find` and `BiLM.load`."""
        if self.path is None:
            return shipped.load(shipped.LANG)
        return BiLM.load(shipped.find(self.path))


@registry.readers("spacy-elmo.WeightsReader.v1")
def configure_weights_reader(path: str | Path | None = None) -> WeightsReader:
    """Return a reader of weights.

    Args:
        path: Model folder or file in any format, or a shipped model's name; null for
            the shipped model of the pipeline's language.
    """
    return WeightsReader(path)
