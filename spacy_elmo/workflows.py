"""Say where `spacy_elmo.workflows` went, to who runs one of its modules."""

from .errors import Errors

raise ImportError(Errors.EL119)
