"""Architectures of version 0.2 in whose place spaCy's own are used. Each says so."""

from typing import Any, NoReturn

from spacy.util import registry

from ..errors import Errors


@registry.architectures("spacy-elmo.StaticVectors.v1")
def build_static_vectors(width: int) -> NoReturn:
    """Raise ValueError [EL241]."""
    instead = "spacy.MultiHashEmbed.v2 with include_static_vectors = true"
    raise Errors.EL241(name="StaticVectors.v1", instead=instead)


@registry.architectures("spacy-elmo.CharCnn.v1")
def build_char_cnn(
    width: int,
    char_dim: int = 16,
    filters: Any = None,
    n_highway: int = 1,
    max_characters: int = 50,
) -> NoReturn:
    """Raise ValueError [EL241]."""
    instead = "spacy.CharacterEmbed.v2"
    raise Errors.EL241(name="CharCnn.v1", instead=instead)
