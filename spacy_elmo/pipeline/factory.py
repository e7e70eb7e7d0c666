"""The registered factory `elmo`, and its settings."""

import warnings
import weakref
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from spacy.language import Language

from .. import models as shipped
from ..bilm.weights import read_config, read_mix
from ..errors import Warnings
from .component import Elmo
from .encoder import Encoder, shim_of
from .settings import ElmoSettings

MODEL = {"@architectures": "spacy-elmo.BiLM.v1"}
SETTINGS = asdict(ElmoSettings())


@Language.factory(
    "elmo",
    assigns=["doc.tensor", "doc._.elmo"],
    default_config={"model": MODEL, **SETTINGS},
)
def make_elmo(
    nlp: Language,
    name: str,
    model: Encoder,
    *,
    weights: str | None = None,
    frozen: bool = True,
    set_tensor: bool = True,
    max_layers_mb: int = 1024,
    learn_rate_factor: float = 0.075,
    similarity_hooks: bool = False,
    mix: str | int = "average",
    mix_weights: Any = None,
    layer_norm: bool = False,
    gamma: float = 1.0,
    learn_rate: float | None = None,
    unfreeze_every: int | None = None,
) -> Elmo:
    """Return an ELMo component.

    Args:
        nlp: The pipeline.
        name: Of the component.
        model: `spacy-elmo.BiLM.v1`.
        weights: Model folder, file or shipped name. This and the settings below: see
            `ElmoSettings`.
        frozen: Whether the biLM is not trained.
        set_tensor: Whether `doc.tensor` is set.
        max_layers_mb: Size at most of the layers that wait for listeners.
        learn_rate_factor: Of the optimizer's rate, for a biLM that is not frozen.
        similarity_hooks: Whether `similarity` is that of vectors in context.
        mix: Of the layers, for `doc.tensor`.
        mix_weights: Softmax weights of an average, one a layer.
        layer_norm: Whether layers are normalized before.
        gamma: Scale of the mix.
        learn_rate: Of version 0.2.
        unfreeze_every: Of version 0.2.

    Raises:
        ValueError: [EL083, EL085] The mix fits no such biLM; also as `ElmoSettings`.
    """
    arguments = locals()
    settings = ElmoSettings(**{name: arguments[name] for name in SETTINGS})
    if weights is not None:
        shim = shim_of(model)
        if shim.bilm.config.to_dict() == shipped.sizes():
            shim.sizes_chosen = False  # version 0.2 wrote them where none were chosen
        # A saved pipeline has weights of its own, and must load where there are no
        # others. Where they are needed, an error says what is wrong.
        with suppress(OSError, ValueError):
            if not shim.sizes_chosen:
                shim.set_sizes(read_config(shipped.find(weights)))
                model.set_dim("nO", shim.bilm.config.width, force=True)
            _warn_of_mix(name, weights, settings)
    elmo = Elmo(nlp.vocab, model, name, settings=settings, lang=nlp.lang or "")
    elmo.pipeline = weakref.ref(nlp)
    return elmo


def _warn_of_mix(name: str, weights: str, settings: ElmoSettings) -> None:
    """Warn [ELW60] of weights that have a trained mix, if the component has none."""
    plain = settings.mix in ("average", "learned") and settings.gamma == 1.0
    if not plain or settings.mix_weights is not None:
        return
    if (mix := read_mix(shipped.find(weights))) is not None:
        values = {"path": weights, "name": name, "gamma": mix.gamma}
        rounded = [round(weight, 4) for weight in mix.weights]
        warnings.warn(Warnings.ELW60(weights=rounded, **values), stacklevel=3)


def component_config(path: str | Path) -> dict[str, Any]:
    """Return the configuration of an `elmo` component for a model, to be used in
    `nlp.add_pipe("elmo", config=...)`. If a mix of layers was trained with the model,
    the configuration has it, too. path: a model folder, or the name of a shipped model.

    Raises:
        ValueError, FileNotFoundError: As `weights.read_config`.
    """
    path = shipped.find(path)
    sizes = read_config(path).to_dict()
    config: dict[str, Any] = {"model": {**MODEL, **sizes}}
    if (mix := read_mix(path)) is not None:
        config |= {"mix_weights": list(mix.weights), "gamma": mix.gamma}
    return config
