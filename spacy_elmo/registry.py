"""Registries, to which other packages can add. Settings give the registered names.

Each registry has a group of entry points with its name, such as
`spacy_elmo_objectives`. A registered function declares the types and bounds of its
settings (`pydantic.validate_call`). They hold for configurations and for files.

The registries are not spaCy's, so that the trainer runs without spaCy. Only its loggers
are spaCy's, found by their entry points.
"""

import catalogue
import confection

NAMESPACE = "spacy_elmo"


class registry(confection.registry):
    """Objectives, optimizers, schedules and loggers of training, formats of weights,
    and formats of vectors (sinks)."""

    objectives = catalogue.create(NAMESPACE, "objectives", entry_points=True)
    optimizers = catalogue.create(NAMESPACE, "optimizers", entry_points=True)
    schedules = catalogue.create(NAMESPACE, "schedules", entry_points=True)
    formats = catalogue.create(NAMESPACE, "formats", entry_points=True)
    loggers = catalogue.create("spacy", "loggers", entry_points=True)
    sinks = catalogue.create(NAMESPACE, "sinks", entry_points=True)
