"""What a configuration can call while a pipeline is initialised."""

from collections.abc import Callable
from typing import Any

from spacy.language import Language
from spacy.util import registry


@registry.callbacks("spacy-elmo.UseLayerCache.v1")
def configure_layer_cache(
    layer_cache: str = "memory", layer_cache_mb: int = 4096, name: str = "elmo"
) -> Callable[[Language], Language]:
    """Return a callback for [initialize.before_init] that keeps the layers of sentences
    of a component that is sourced, and so not initialised itself.

    Args:
        layer_cache: A file, or "memory".
        layer_cache_mb: Its size at most.
        name: Of the component.
    """

    def use_layer_cache(nlp: Language) -> Language:
        elmo: Any = nlp.get_pipe(name)
        elmo.use_layer_cache(layer_cache, layer_cache_mb)
        return nlp

    return use_layer_cache
