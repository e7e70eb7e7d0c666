"""ELMo for spaCy: contextual vectors from a bidirectional language model."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bilm.bilm import BiLM as BiLM

__version__ = "0.1.0"
__all__ = ["BiLM", "__version__"]


def __getattr__(name: str) -> Any:
    # torch is imported when a biLM is asked for, so that spaCy's command line, which
    # imports this package to list its commands, stays quick.
    if name == "BiLM":
        from .bilm.bilm import BiLM

        return BiLM
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
