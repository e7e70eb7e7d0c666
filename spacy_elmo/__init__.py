"""ELMo for spaCy: contextual vectors from a bidirectional language model."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bilm import BiLM as BiLM
    from .pipeline import component_config as component_config
    from .pipeline import similarity as similarity

__version__ = "0.2.0"
__all__ = ["BiLM", "__version__", "component_config", "similarity"]

# Imported at first use. The biLM runs without spaCy, and spaCy's command line, which
# imports this package to list its commands, stays quick.
LAZY = {
    "BiLM": ".bilm",
    "component_config": ".pipeline",
    "similarity": ".pipeline",
}


def __getattr__(name: str) -> Any:
    if name in LAZY:
        return getattr(import_module(LAZY[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
