"""ELMo for spaCy: contextual vectors from a bidirectional language model."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bilm import BiLM as BiLM
    from .pipeline import component_config as component_config
    from .pipeline import similarity as similarity

__version__ = "0.2.0"
__all__ = ["BiLM", "__version__", "component_config", "similarity"]

LATE = {
    "BiLM": ".bilm",
    "component_config": ".pipeline",
    "similarity": ".pipeline",
}


def __getattr__(name: str) -> Any:
    # Imported when asked for: the biLM runs without spaCy, and spaCy's command line,
    # which imports this package to list its commands, stays quick.
    if name in LATE:
        return getattr(import_module(LATE[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
