"""Static vectors for any string: a small convolutional network over word pieces, in
integer arithmetic (`WordEncoder`)."""

from .encoder import FILE, WordEncoder

__all__ = ["FILE", "WordEncoder"]
