"""What a training configuration can name: `@objectives`, `@optimizers`, `@schedules`,
`@loggers`. confection fills in their defaults and checks the types of their arguments.

Kept apart from spaCy's registry, so that the trainer runs without spaCy; its loggers
alone are spaCy's, found by their entry points.
"""

import catalogue
import confection

NAMESPACE = "spacy_elmo"


class registry(confection.registry):
    sections = catalogue.create(NAMESPACE, "sections")
    objectives = catalogue.create(NAMESPACE, "objectives", entry_points=True)
    optimizers = catalogue.create(NAMESPACE, "optimizers", entry_points=True)
    schedules = catalogue.create(NAMESPACE, "schedules", entry_points=True)
    formats = catalogue.create(NAMESPACE, "formats", entry_points=True)
    loggers = catalogue.create("spacy", "loggers", entry_points=True)
