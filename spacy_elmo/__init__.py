"""ELMo for spaCy: contextual vectors from a bidirectional language model."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bilm.bilm import BiLM as BiLM
    from .component.factory import component_config as component_config
    from .component.similarity import similarity as similarity

__version__ = "0.2.0"
__all__ = ["BiLM", "__version__", "component_config", "similarity"]


_PUBLIC = {
    "BiLM": ".bilm.bilm",
    "component_config": ".component.factory",
    "similarity": ".component.similarity",
}


def __getattr__(name: str) -> Any:
    # Imported when asked for: the biLM runs without spaCy, and spaCy's command line,
    # which imports this package to list its commands, stays quick.
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
