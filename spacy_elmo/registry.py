"""Registries of what other packages can add, under names that settings give.

Each has entry points in a group of its name, such as `spacy_elmo_objectives`.
confection fills in defaults and checks the types of arguments. They are kept apart from
spaCy's, so that the trainer runs without spaCy; its loggers alone are spaCy's, found by
their entry points.
"""

import catalogue
import confection

NAMESPACE = "spacy_elmo"


class registry(confection.registry):
    """Objectives, optimizers and schedules of training, formats of weights, loggers."""

    objectives = catalogue.create(NAMESPACE, "objectives", entry_points=True)
    optimizers = catalogue.create(NAMESPACE, "optimizers", entry_points=True)
    schedules = catalogue.create(NAMESPACE, "schedules", entry_points=True)
    formats = catalogue.create(NAMESPACE, "formats", entry_points=True)
    loggers = catalogue.create("spacy", "loggers", entry_points=True)
    sinks = catalogue.create(NAMESPACE, "sinks", entry_points=True)
