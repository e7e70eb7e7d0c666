"""Which biLMs are installed: those inside this package, and those of other packages,
which entry points of the group `spacy_elmo_models` name."""

from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from ..errors import Errors

FOLDER = Path(__file__).parent
GROUP = "spacy_elmo_models"
# By the language of the pipeline; the first is that of `Elmo` itself.
MODELS = {"en": "en_elmo_sm", "ko": "ko_elmo_sm"}
LANG = next(iter(MODELS))
# Packages of models that do not ship, by language.
PACKAGES = {"de": "spacy-elmo-de"}


@dataclass(frozen=True)
class Installed:
    """A model that is installed.

    Attributes:
        name: It begins with the code of the language: "de_elmo_sm".
        package: The name of the distribution that it came with.
        module: The Python package whose folder it is; None of this package.
    """

    name: str
    package: str
    module: str | None = None

    @property
    def lang(self) -> str:
        """The language, as spaCy's pipelines have it in their names."""
        return self.name.partition("_")[0]

    @property
    def folder(self) -> Path:
        """The folder of the model, whose package is not imported. Raises
        FileNotFoundError [EL190] if a package lacks the module that it names."""
        if self.module is None:
            return FOLDER / self.name
        try:
            spec = find_spec(self.module)
        except ModuleNotFoundError:  # the package that it is in
            spec = None
        if spec is None or not spec.submodule_search_locations:
            raise Errors.EL190(name=self.name, package=self.package, module=self.module)
        return Path(next(iter(spec.submodule_search_locations)))


def installed() -> dict[str, Installed]:
    """Return the models that are installed, by name: those of this package first, then
    those of others by their names. A package can't take the name of one that ships."""
    found = {name: Installed(name, "spacy-elmo") for name in MODELS.values()}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        package = entry.dist.name if entry.dist else entry.module
        found.setdefault(entry.name, Installed(entry.name, package, entry.module))
    return found
