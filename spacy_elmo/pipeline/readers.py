"""Functions that a configuration can name: a reader of weights, and callbacks of a
training."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.util import registry

from .. import models as shipped
from ..bilm import BiLM
from ..errors import Errors
from ..files import named_path
from .component import Elmo


class WeightsReader:
    """Reads weights when it is called, not when the configuration is read."""

    def __init__(self, path: str | Path | None) -> None:
        # None for the weights that the component finds by itself.
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


@registry.callbacks("spacy-elmo.UseLayerCache.v1")
def configure_layer_cache(
    layer_cache: str = "memory", layer_cache_mb: int = 4096, name: str = "elmo"
) -> Callable[[Language], Language]:
    """Return a callback for [initialize.before_init] that keeps the layers of sentences
    of a component that is sourced, and so not initialised itself.

    Args:
        layer_cache: A file, or "memory".
        layer_cache_mb: Its size at most.
        name: Of the component; the callback raises ValueError [EL143] if it is another.
    """
    in_memory = layer_cache == "memory"
    where = layer_cache if in_memory else named_path(layer_cache).absolute()

    def use_layer_cache(nlp: Language) -> Language:
        _elmo(nlp, name).use_layer_cache(where, layer_cache_mb)
        return nlp

    return use_layer_cache


@registry.callbacks("spacy-elmo.Unfreeze.v1")
def configure_unfreezing(
    steps: list[int], name: str = "elmo"
) -> Callable[[Language, dict[str, Any]], None]:
    """Return a callback for [training.before_update] that has the top layer of a biLM
    learn from the start, and one layer more, from the top down, from each of some steps
    on (Howard & Ruder 2018).

    Args:
        steps: Numbers of updates. With one for each LSTM layer all layers learn in the
            end, the token layer being the last; with fewer the lowest never do.
        name: Of the component; the callback raises ValueError [EL143] if it is another.
    """

    def unfreeze(nlp: Language, info: dict[str, Any]) -> None:
        _elmo(nlp, name).unfreeze(1 + sum(step <= info["step"] for step in steps))

    return unfreeze


def _elmo(nlp: Language, name: str) -> Elmo:
    elmo: Any = nlp.get_pipe(name)
    if not isinstance(elmo, Elmo):
        raise Errors.EL143(name=name)
    return elmo
