"""A biLM and a mix owned by one component: what `replace_listeners` puts in place."""

import copy
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial
from typing import Any

from spacy.tokens import Doc
from spacy.util import registry
from thinc.api import Model
from thinc.types import Floats2d

from ..errors import Warnings
from .encoder import Encoder, docs_at_once, shim_of
from .listener import ElmoListener
from .mix import ListenerSettings, MixModel
from .settings import takes_fields_of

TOK2VEC = "spacy-elmo.Tok2Vec.v1"
LISTENER = "spacy-elmo.ElmoListener.v1"


class OwnElmo(MixModel):
    """Model[list[Doc], list[Floats2d]]: as a listener, with the biLM inside."""

    def __init__(self, bilm: Encoder, frozen: bool, settings: ListenerSettings) -> None:
        super().__init__("elmo-tok2vec", _forward, settings, layers=[bilm], init=_init)
        config = shim_of(bilm).bilm_config
        self.n_layers = config.n_layers + 1
        self.frozen = frozen
        self.set_dim("nO", settings.width(self.n_layers, config.width))
        self.set_up(self.n_layers)

    def _copy(self, seen: dict[int, Any] | None = None) -> "OwnElmo":
        # Thinc's own copy would be a plain Model.
        copied = OwnElmo(self.layers[0].copy(), self.frozen, self.settings)
        copied.copy_mix(self)
        return copied


@registry.architectures(TOK2VEC)
@takes_fields_of(ListenerSettings)
def build_tok2vec(
    *, bilm: Encoder, frozen: bool = True, **settings: Any
) -> Model[list[Doc], list[Floats2d]]:
    """Return a tok2vec with a biLM of its own.

    Args:
        bilm: `spacy-elmo.BiLM.v1`; its weights come with the component's.
        frozen: Don't train the biLM, only the mix.
        settings: As in `ListenerSettings`; [EL083, EL085] for a mix that can't be.
    """
    return OwnElmo(bilm, frozen, ListenerSettings(**settings))


def offer_replacement(encoder: Encoder, *, frozen: bool) -> None:
    """Tell spaCy what takes the place of the listeners that it replaces."""
    make_cfg = partial(replace_listener_cfg, frozen=frozen)
    encoder.attrs["replace_listener"] = replace_listener
    encoder.attrs["replace_listener_cfg"] = make_cfg


def replace_listener(copied: Encoder, listener: ElmoListener, upstream: Any) -> OwnElmo:
    """Return a tok2vec of its own for the place of a listener, whose mix it keeps."""
    if not upstream.frozen:
        shim_of(copied).thawed = upstream.n_layers
        if upstream.settings.learn_rate is not None:
            warnings.warn(Warnings.ELW02.format(name=upstream.name), stacklevel=2)
    if not shim_of(copied).has_weights and upstream.has_default_weights:
        shim_of(copied).set_weights(copy.deepcopy(upstream.bilm), upstream.name)
    model = OwnElmo(copied, upstream.frozen, listener.settings)
    model.copy_mix(listener)
    return model


def replace_listener_cfg(
    bilm_cfg: dict[str, Any], tok2vec_cfg: dict[str, Any], *, frozen: bool
) -> dict[str, Any]:
    """Return the configuration of what takes a listener's place, from those of the
    upstream's model and of the component's tok2vec: the listener, or what it is in."""
    names = {field.name for field in fields(ListenerSettings)}
    listener_cfg = next(_listeners(tok2vec_cfg), {})
    settings = {name: v for name, v in listener_cfg.items() if name in names}
    return {"@architectures": TOK2VEC, "bilm": bilm_cfg, "frozen": frozen, **settings}


def _listeners(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if block.get("@architectures") == LISTENER:
        yield block
    for value in block.values():
        if isinstance(value, dict):
            yield from _listeners(value)


def _init(model: OwnElmo, X: Any = None, Y: Any = None) -> None:
    model.set_up(model.n_layers)


def _forward(
    model: OwnElmo, docs: list[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Doc]]]:
    encoder: Encoder = model.layers[0]
    if not is_train:
        vectors: list[Floats2d] = []
        for group in docs_at_once(encoder, docs):
            vectors += model.mix(encoder.predict(group), False)[0]
        return vectors, lambda dY: []
    layers, backprop_encoder = encoder(docs, not model.frozen)
    Y, backprop_mix = model.mix(layers, is_train)

    def backprop(dY: list[Floats2d]) -> list[Doc]:
        d_layers = backprop_mix(dY)
        model.add_penalty()
        if not model.frozen:
            backprop_encoder(d_layers())
        return []

    return Y, backprop
