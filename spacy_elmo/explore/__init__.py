"""HTML pages of a biLM's vectors and a pipeline's mixes: `render(word_view(...))`."""

from .labelled import read_contexts
from .mixes import mix_view
from .neighbours import (
    Context,
    Neighbour,
    contexts_of,
    nearest_contexts,
    nearest_words,
)
from .page import Page, View, render, visible
from .sentences import sentence_view
from .words import word_view

__all__ = [
    "Context", "Neighbour", "Page", "View", "contexts_of", "mix_view",
    "nearest_contexts", "nearest_words", "read_contexts", "render", "sentence_view",
    "visible", "word_view",
]  # fmt: skip
