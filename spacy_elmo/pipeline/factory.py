"""The registered factory `elmo`, and its settings."""

import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from spacy.language import Language

from .. import models as shipped
from ..bilm import BiLMConfig
from ..bilm.weights import read_config, read_mix
from ..errors import Warnings
from .component import Elmo
from .encoder import Encoder, set_sizes, shim_of
from .fields import takes_fields_of
from .sentence_advice import sentence_setters
from .settings import ElmoSettings

DEFAULT_CONFIG = {
    "model": {"@architectures": "spacy-elmo.BiLM.v1", **shipped.sizes()},
    **asdict(ElmoSettings()),
}


@Language.factory(
    "elmo", assigns=["doc.tensor", "doc._.elmo"], default_config=DEFAULT_CONFIG
)
@takes_fields_of(ElmoSettings)
def make_elmo(nlp: Language, name: str, model: Encoder, **settings: Any) -> Elmo:
    """Return an ELMo component; settings are those of `ElmoSettings`."""
    shim_of(model).takes_sizes = shim_of(model).bilm_config.to_dict() == shipped.sizes()
    sizes = _sizes_of_weights(model, settings["weights"])
    if sizes is not None:
        set_sizes(model, sizes)
    _warn_of_mix(name, settings)
    elmo = Elmo(nlp.vocab, model, name, lang=nlp.lang or "", **settings)
    place = weakref.ref(nlp), weakref.ref(elmo)
    elmo.when_loaded = partial(_store_version, *place)
    elmo.sentence_advice.setters = partial(_sentence_setters, *place)
    elmo.when_frozen = partial(_store_frozen, *place)
    elmo.when_resized = partial(_store_sizes, *place)
    if sizes is not None:
        elmo.when_linked = partial(elmo.when_resized, sizes)
    return elmo


def _sizes_of_weights(model: Encoder, weights: str | None) -> BiLMConfig | None:
    """Return the sizes of named weights if those of the model are the default ones.

    None if they can't be read: a saved pipeline has weights of its own, and must load
    where there are no others. Where they are needed, an error says what is wrong.
    """
    if weights is None or not shim_of(model).takes_sizes:
        return None
    try:
        return read_config(shipped.find(weights))
    except (OSError, ValueError):
        return None


def _warn_of_mix(name: str, settings: dict[str, Any]) -> None:
    """Warn [ELW60] of named weights that have a trained mix, if the component has none.
    Where they can't be read, an error says so when they are needed."""
    default = ElmoSettings()
    if settings["weights"] is None or any(
        settings[key] != getattr(default, key)
        for key in ("mix", "mix_weights", "gamma")
    ):
        return
    try:
        mix = read_mix(shipped.find(settings["weights"]))
    except (OSError, ValueError):
        return
    if mix is not None:
        values = {"path": settings["weights"], "name": name}
        weights = [round(weight, 4) for weight in mix.weights]
        message = Warnings.ELW60.format(weights=weights, gamma=mix.gamma, **values)
        warnings.warn(message, stacklevel=2)


Pipeline = Callable[[], Language | None]
Component = Callable[[], Elmo | None]


def _found(pipeline: Pipeline, elmo: Component) -> Iterator[tuple[Language, str]]:
    """Yield the pipeline of a component and its name there now, if it is there."""
    nlp, component = pipeline(), elmo()
    if nlp is not None:
        yield from ((nlp, name) for name, each in nlp.components if each is component)


def _sentence_setters(pipeline: Pipeline, elmo: Component) -> list[str]:
    """Return the components before `elmo` that set sentence boundaries."""
    found = _found(pipeline, elmo)
    return [other for nlp, name in found for other in sentence_setters(nlp, name)]


def _store_sizes(pipeline: Pipeline, elmo: Component, sizes: BiLMConfig) -> None:
    """Write the sizes of a component into the configuration of its pipeline, which
    spaCy has filled with the default ones."""
    for nlp, name in _found(pipeline, elmo):
        nlp.get_pipe_config(name)["model"].update(sizes.to_dict())


def _store_frozen(pipeline: Pipeline, elmo: Component, frozen: bool) -> None:
    """Write into the configuration whether a component is trained."""
    for nlp, name in _found(pipeline, elmo):
        nlp.get_pipe_config(name)["frozen"] = frozen


def _store_version(
    pipeline: Pipeline, elmo: Component, version: dict[str, Any]
) -> None:
    """Write into `nlp.meta["elmo"]`, which is saved, what weights a component has."""
    for nlp, name in _found(pipeline, elmo):
        nlp.meta.setdefault("elmo", {})[name] = version


def component_config(path: str | Path) -> dict[str, Any]:
    """Return the configuration of an `elmo` component that fits the weights in a model
    folder or of a shipped model's name, for `nlp.add_pipe("elmo", config=...)`; with
    the mix of layers that was trained with them, if they have one.

    Raises:
        ValueError, FileNotFoundError: As `weights.read_config`.
    """
    path = shipped.find(path)
    sizes = read_config(path).to_dict()
    config: dict[str, Any] = {
        "model": {"@architectures": "spacy-elmo.BiLM.v1", **sizes}
    }
    if (mix := read_mix(path)) is not None:
        config |= {"mix_weights": list(mix.weights), "gamma": mix.gamma}
    return config
