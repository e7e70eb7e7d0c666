"""A biLM and a mix owned by one component: what `replace_listeners` puts in place."""

import copy
import warnings
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any

from spacy.tokens import Doc
from spacy.util import registry
from thinc.api import Model
from thinc.types import Floats2d

from ..errors import Errors, Warnings
from .encoder import Encoder, cut, shim_of
from .listener import ElmoListener
from .mix import MixSettings, mix_with_params, set_up


class OwnElmo(Model):
    """Model[List[Doc], List[Floats2d]]: as a listener, with the biLM inside."""

    def __init__(self, bilm: Encoder, frozen: bool, settings: MixSettings) -> None:
        config = shim_of(bilm).bilm_config
        self.n_layers = config.n_layers + 1
        self.frozen, self.settings = frozen, settings
        super().__init__(
            "elmo-tok2vec",
            _forward,
            dims={"nO": settings.width(self.n_layers, config.width)},
            params={"W": None, "gamma": None},
            layers=[bilm],
        )
        set_up(self, settings, self.n_layers)

    def _copy(self, seen: dict | None = None) -> "OwnElmo":
        # Thinc's own copy would be a plain Model.
        copied = OwnElmo(self.layers[0].copy(), self.frozen, self.settings)
        for name in self.param_names:
            if self.has_param(name):
                copied.set_param(name, self.get_param(name).copy())
        return copied


SETTINGS = [field.name for field in fields(MixSettings)]


@registry.architectures("spacy-elmo.Tok2Vec.v1")
def build_tok2vec(
    bilm: Encoder,
    frozen: bool = True,
    mix: str | int = "learned",
    layer_norm: bool = False,
    dropout: float = 0.0,
    l2: float = 0.0,
    gamma: float = 1.0,
) -> Model[list[Doc], list[Floats2d]]:
    """Model[List[Doc], List[Floats2d]] with a biLM of its own.

    bilm: `spacy-elmo.BiLM.v1`; its weights come with the component's.
    frozen: don't train the biLM, only the mix.
    mix, layer_norm, dropout, l2, gamma: as in `MixSettings`.
    Raises ValueError [EL083, EL085].
    """
    settings = MixSettings(mix, layer_norm, dropout, l2, gamma)
    return OwnElmo(bilm, frozen, settings)


def replace_listener(
    copied: Encoder, listener: ElmoListener, upstream: Any
) -> Model[list[Doc], list[Floats2d]]:
    """A tok2vec of its own in place of a listener, whose trained mix it keeps."""
    if not upstream.frozen:
        shim_of(copied).thawed = upstream.n_layers
        if upstream.learn_rate is not None:
            message = Warnings.ELW02.format(name=upstream.name)
            warnings.warn(message, stacklevel=2)
    if not shim_of(copied).has_weights:  # the upstream has not been used yet
        shim_of(copied).set_weights(copy.deepcopy(upstream.bilm), upstream.name)
    model = build_tok2vec(copied, upstream.frozen, **asdict(listener.settings))
    for name in ("W", "gamma"):
        if listener.has_param(name):
            model.set_param(name, listener.get_param(name).copy())
    return model


def replace_listener_cfg(
    bilm_cfg: dict[str, Any], listener_cfg: dict[str, Any], *, frozen: bool
) -> dict[str, Any]:
    return {
        "@architectures": "spacy-elmo.Tok2Vec.v1",
        "bilm": bilm_cfg,
        "frozen": frozen,
        **{k: v for k, v in listener_cfg.items() if k in SETTINGS},
    }


def _forward(
    model: OwnElmo, docs: list[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list]]:
    encoder = model.layers[0]
    if not shim_of(encoder).has_weights:
        raise ValueError(Errors.EL050.format(name="spacy-elmo.Tok2Vec.v1"))
    layers, backprop_encoder = encoder(
        cut(encoder, docs), is_train and not model.frozen
    )
    Y, backprop_mix = mix_with_params(
        model, model.settings, layers, model.n_layers, is_train
    )

    def backprop(dY: list[Floats2d]) -> list:
        d_layers = backprop_mix(dY)
        if not model.frozen:
            backprop_encoder([d_layers(d) for d in range(len(docs))])
        return []

    return Y, backprop
