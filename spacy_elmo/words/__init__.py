"""Static vectors of words that are spelled, so that no string is unknown: a small
convolutional network over word pieces, in whole numbers (`WordEncoder`)."""

from .encoder import FILE, WordEncoder

__all__ = ["FILE", "WordEncoder"]
