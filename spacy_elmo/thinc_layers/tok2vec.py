"""A biLM and a mix owned by one component: what `replace_listeners` puts in place."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

from spacy.tokens import Doc
from spacy.util import registry
from thinc.api import Model
from thinc.types import Floats2d

from ..errors import Errors
from .encoder import Encoder, cut, shim_of
from .listener import ElmoListener
from .mix import mix_with_params, set_up


@registry.architectures("spacy-elmo.Tok2Vec.v1")
def build_tok2vec(
    bilm: Encoder, frozen: bool = True
) -> Model[list[Doc], list[Floats2d]]:
    """Model[List[Doc], List[Floats2d]] with a biLM of its own.

    bilm: `spacy-elmo.BiLM.v1`; its weights come with the component's.
    frozen: don't train the biLM, only the mix.
    """
    config = shim_of(bilm).bilm_config
    model: Model[list[Doc], list[Floats2d]] = Model(
        "elmo-tok2vec",
        partial(_forward, frozen=frozen),
        dims={"nO": config.width},
        params={"W": None, "gamma": None},
        layers=[bilm],
    )
    set_up(model, config.n_layers + 1)
    return model


def replace_listener(
    copied: Encoder, listener: ElmoListener, upstream: Any
) -> Model[list[Doc], list[Floats2d]]:
    """A tok2vec of its own in place of a listener, whose trained mix it keeps."""
    if not shim_of(copied).has_weights:  # the upstream has not been used yet
        shim_of(copied).set_weights(copy.deepcopy(upstream.bilm), upstream.name)
    model = build_tok2vec(copied, upstream.frozen)
    for name in ("W", "gamma"):
        model.set_param(name, listener.get_param(name).copy())
    return model


def replace_listener_cfg(
    bilm_cfg: dict[str, Any], listener_cfg: dict[str, Any], *, frozen: bool
) -> dict[str, Any]:
    return {
        "@architectures": "spacy-elmo.Tok2Vec.v1",
        "bilm": bilm_cfg,
        "frozen": frozen,
    }


def _forward(
    model: Model, docs: list[Doc], is_train: bool, *, frozen: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list]]:
    encoder = model.layers[0]
    if not shim_of(encoder).has_weights:
        raise ValueError(Errors.EL050.format(name="spacy-elmo.Tok2Vec.v1"))
    layers, backprop_encoder = encoder(cut(encoder, docs), is_train and not frozen)
    Y, backprop_mix = mix_with_params(model, layers)

    def backprop(dY: list[Floats2d]) -> list:
        d_layers = backprop_mix(dY)
        if not frozen:
            backprop_encoder([d_layers(d) for d in range(len(docs))])
        return []

    return Y, backprop
