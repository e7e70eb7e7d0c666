"""Which biLMs are installed, and where: those inside this package, and those of other
packages, which entry points of the group `spacy_elmo_models` name."""

import json
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..bilm import BiLM, BiLMConfig, weights
from ..errors import Errors
from ..files import named_path

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
        module: The Python package whose folder it is; None for a model in this package.
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


def sizes() -> dict[str, Any]:
    """Return the sizes of the shipped models, or the defaults of `BiLMConfig` if their
    file is missing or damaged. spaCy calls this whenever it starts, so the error is
    left to `load`."""
    try:
        text = (FOLDER / MODELS[LANG] / "config.json").read_text(encoding="utf-8")
        return BiLMConfig.from_dict(json.loads(text)["bilm"]).to_dict()
    except (OSError, ValueError, KeyError, TypeError):
        return BiLMConfig().to_dict()


def find(name_or_path: str | Path) -> Path:
    """Return an existing path, or else the folder of the installed model with this
    name.

    Raises:
        FileNotFoundError: [EL001] There is neither. [EL190] Its package is damaged.
        ValueError: [EL002] The system can't look for the path.
    """
    path = named_path(name_or_path)
    try:
        is_there = path.exists()
    except (OSError, ValueError) as error:  # too long, no permission, a null character
        raise Errors.EL002(path=path, format="a biLM", error=error) from error
    if is_there:
        return path
    models = installed()
    if str(name_or_path) not in models:
        raise weights.not_found(path, list(models))
    return models[str(name_or_path)].folder


def locate(name_or_path: str | Path, working_folder: Path = Path()) -> Path:
    """Return the absolute path of the model that a setting names: a path, relative to a
    working folder, or if nothing is there, the folder of the installed model with this
    name. The path need not exist. Raises FileNotFoundError [EL190] if the package of
    the model is damaged."""
    path = (working_folder / named_path(name_or_path)).absolute()
    with suppress(OSError):  # too long, no permission: what reads it says so
        if path.exists():
            return path
    model = installed().get(str(name_or_path))
    return path if model is None else model.folder


def folder(lang: str) -> Path:
    """Return the folder of the model for a language.

    Raises:
        ValueError: [EL081] There is none. [EL191] There is one, in a package that is
            not installed.
        FileNotFoundError: [EL051] This package was built without it. [EL190] Its own
            package is damaged.
    """
    found = installed().values()  # the one that ships is before others
    model = next((model for model in found if model.lang == lang), None)
    if model is None and lang in PACKAGES:
        raise Errors.EL191(lang=lang, package=PACKAGES[lang])
    if model is None:
        known = ", ".join(f"'{model.name}' for '{model.lang}'" for model in found)
        raise Errors.EL081(lang=lang, known=known)
    if not model.folder.exists():
        raise Errors.EL051(path=model.folder)
    return model.folder


def load(lang: str) -> BiLM:
    """Return the model for a language. Raises as `folder`, and ValueError if one of its
    files is damaged."""
    return BiLM.load(folder(lang))
