"""A biLM and a mix owned by one component: what `replace_listeners` puts in place."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields
from typing import Any

from spacy.tokens import Doc
from spacy.util import registry
from thinc.api import Model
from thinc.types import Floats2d

from ..errors import Errors
from ..machine import default_settings
from .encoder import Encoder, group_docs, shim_of
from .listener import ElmoListener
from .mix import MixModel
from .settings import ListenerSettings

TOK2VEC = "spacy-elmo.Tok2Vec.v1"
LISTENER = "spacy-elmo.ElmoListener.v1"

Block = dict[str, Any]  # of a configuration


class OwnElmo(MixModel):
    """Model[list[Doc], list[Floats2d]]: as a listener, with the biLM inside."""

    def __init__(self, bilm: Encoder, frozen: bool, settings: ListenerSettings) -> None:
        super().__init__("elmo-tok2vec", _forward, settings, layers=[bilm], init=_init)
        config = shim_of(bilm).bilm.config
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
def build_tok2vec(
    *,
    bilm: Encoder,
    frozen: bool = True,
    learn_rate_factor: float = 1.0,
    mix: str | int = "learned",
    mix_weights: Any = None,
    layer_norm: bool = False,
    gamma: float = 1.0,
    dropout: float = 0.0,
    l2: float = 0.0,
) -> Model[list[Doc], list[Floats2d]]:
    """Return a tok2vec with a biLM of its own.

    Args:
        bilm: `spacy-elmo.BiLM.v1`; its weights come with the component's.
        frozen: Don't train the biLM, only the mix.
        learn_rate_factor: Of the optimizer's rate, for a biLM that is not frozen.
        mix: This and the settings below: as in `spacy-elmo.ElmoListener.v1`.
        mix_weights: Softmax weights to begin with, one a layer.
        layer_norm: Whether layers are normalized before.
        gamma: Scale of the mix, to begin with.
        dropout: On the mix, while training.
        l2: Draws a learned mix towards the average.

    Raises:
        ValueError: [EL083, EL085] for a mix that can't be.
    """
    shim_of(bilm).learn_rate_factor = learn_rate_factor
    settings = ListenerSettings(mix, mix_weights, layer_norm, gamma, dropout, l2)
    return OwnElmo(bilm, frozen, settings)


class Replacement:
    """What spaCy asks for to replace the listeners of a component: first, for each
    path that it was given, the configuration that stands there from then on, and then
    the models. A path is of a listener, or of the tok2vec that the listener is in."""

    def __init__(self, *, frozen: bool, learn_rate_factor: float) -> None:
        self.training = {"frozen": frozen, "learn_rate_factor": learn_rate_factor}
        self._bilm: Block = {}
        # The component's tok2vec, and the last configuration that was given.
        self._tok2vec: Block = {}
        self._given: Block = {}

    def config(self, bilm_cfg: Block, tok2vec_cfg: Block) -> Block:
        """Return the configuration of what takes a listener's place, from those of the
        upstream's model and of the component's tok2vec."""
        self._bilm = dict(bilm_cfg)
        if tok2vec_cfg is not self._given:  # as when it is given the same path again
            self._tok2vec = tok2vec_cfg
        known = [*_blocks(self._tok2vec, LISTENER), *_blocks(self._tok2vec, TOK2VEC)]
        self._given = self._own(known[0] if known else {})
        return self._given

    def _own(self, listener: Block) -> Block:
        """Return the configuration of a tok2vec with the mix of a listener."""
        names = {field.name for field in fields(ListenerSettings)}
        settings = {name: v for name, v in listener.items() if name in names}
        own = {"@architectures": TOK2VEC, "bilm": self._bilm}
        return {**own, **self.training, **settings}

    @default_settings()
    def model(self, copied: Encoder, listener: ElmoListener, upstream: Any) -> OwnElmo:
        """Return a tok2vec of its own in a listener's place, whose mix it keeps."""
        if self._given.get("@architectures") == TOK2VEC:
            self._bilm.update(shim_of(copied).bilm.config.to_dict())
            self._given.update(asdict(listener.settings))
            self._keep_what_is_around(upstream.name)
        shim_of(copied).unfreeze(upstream.n_layers)
        if upstream.has_default_weights:  # perhaps newer ones than spaCy has copied
            shim_of(copied).set_weights(copy.deepcopy(upstream.bilm), upstream.name)
        model = OwnElmo(copied, upstream.frozen, listener.settings)
        model.copy_mix(listener)
        return model

    def _keep_what_is_around(self, upstream: str) -> None:
        """Put what is around the listeners into the configuration, if spaCy was given
        the path of that: it has replaced all of it there, and in the model them."""
        if self._tok2vec.get("@architectures") == LISTENER or any(
            block is self._given for block in _blocks(self._tok2vec, TOK2VEC)
        ):
            return  # the path was that of a listener
        listeners = [
            block
            for block in _blocks(self._tok2vec, LISTENER)
            if block.get("upstream", "*") in ("*", upstream)
        ]
        for listener in listeners:
            own = self._own(listener)
            listener.clear()
            listener.update(own)
        if listeners:
            self._given.clear()
            self._given.update(self._tok2vec)


def offer_replacement(encoder: Encoder, *, frozen: bool) -> None:
    """Tell spaCy what takes the place of the listeners that it replaces."""
    factor = shim_of(encoder).learn_rate_factor
    replacement = Replacement(frozen=frozen, learn_rate_factor=factor)
    encoder.attrs["replace_listener"] = replacement.model
    encoder.attrs["replace_listener_cfg"] = replacement.config


def _blocks(block: Block, architecture: str) -> Iterator[Block]:
    """Yield the blocks of an architecture in a block, which can be one itself."""
    if block.get("@architectures") == architecture:
        yield block
    for value in block.values():
        if isinstance(value, dict):
            yield from _blocks(value, architecture)


def _init(model: OwnElmo, X: Any = None, Y: Any = None) -> None:
    model.set_up(model.n_layers)


@default_settings()
def _forward(
    model: OwnElmo, docs: list[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Doc]]]:
    encoder: Encoder = model.layers[0]
    if not shim_of(encoder).has_weights:
        raise Errors.EL095()
    if not is_train:
        vectors: list[Floats2d] = []
        for group in group_docs(encoder, docs):
            vectors += model.mix(encoder.predict(group), False)[0]
        return vectors, lambda dY: []
    layers, backprop_encoder = encoder(docs, not model.frozen)
    Y, backprop_mix = model.mix(layers, is_train)

    @default_settings()
    def backprop(dY: list[Floats2d]) -> list[Doc]:
        d_layers = backprop_mix(dY)
        model.add_penalty()
        if not model.frozen:
            backprop_encoder(d_layers())
        return []

    return Y, backprop
