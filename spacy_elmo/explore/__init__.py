"""HTML pages of a biLM's vectors and a pipeline's mixes: `render(word_view(...))`."""

from .mixes import mix_view
from .page import Page, View, render
from .sentences import sentence_view
from .words import word_view

__all__ = ["Page", "View", "mix_view", "render", "sentence_view", "word_view"]
