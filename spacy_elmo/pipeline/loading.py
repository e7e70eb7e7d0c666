"""Reading a pipeline from its folder or package, and finding its `elmo`."""

from pathlib import Path

import spacy
from spacy.language import Language

from ..files import named_path
from ..models import find, installed
from .component import Elmo


def load_pipeline(source: str | Path) -> Language | None:
    """Load the pipeline that a name or a path stands for.

    Args:
        source: The folder of a pipeline, or the name of an installed one; or a biLM, as
            of `models.find`. What is at a path comes before what is installed.

    Returns:
        The pipeline; None if the source is a biLM.

    Raises:
        Exception: As `models.find` and `spacy.load`.
    """
    is_package = str(source) not in installed() and spacy.util.is_package(str(source))
    if is_package and not named_path(source).exists():
        return spacy.load(str(source))
    path = find(source)
    files = path / "config.cfg", path / "meta.json"  # NLPL has the second, too
    return spacy.load(path) if all(file.exists() for file in files) else None


def elmo_of(nlp: Language) -> Elmo | None:
    """Return the `elmo` whose vectors are in `doc.tensor`: the last one that sets it,
    or the last one if none does. Return None if the pipeline has no `elmo`."""
    elmos = [pipe for _, pipe in nlp.components if isinstance(pipe, Elmo)]
    setting = [elmo for elmo in elmos if elmo.settings.set_tensor]
    return next(reversed(setting or elmos), None)
