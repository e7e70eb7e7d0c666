"""A tok2vec with a biLM and a mix of its own, which `replace_listeners` puts in a
listener's place."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import asdict
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
from .shim import BiLMShim

TOK2VEC = "spacy-elmo.Tok2Vec.v1"
LISTENER = "spacy-elmo.ElmoListener.v1"

Block = dict[str, Any]  # of a configuration


class OwnElmo(MixModel):
    """Model[list[Doc], list[Floats2d]]: as a listener, with the biLM inside."""

    def __init__(self, bilm: Encoder, frozen: bool, settings: ListenerSettings) -> None:
        super().__init__("elmo-tok2vec", _forward, settings, layers=[bilm], init=_init)
        self.frozen = frozen
        width = shim_of(bilm).bilm.config.width
        self.set_dim("nO", settings.width(self.n_layers, width))
        self.set_up(self.n_layers)

    @property
    def n_layers(self) -> int:
        """Layers of its biLM."""
        return shim_of(self.layers[0]).bilm.config.n_layers + 1

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
    """The callbacks with which spaCy replaces the listeners of a component. It calls
    `config` for each path that it was given, and then `model` for each listener. A path
    is that of a listener, or of the tok2vec that the listener is in."""

    def __init__(self) -> None:
        self._bilm: Block = {}
        self._tok2vec: Block = {}  # of the component whose listeners are replaced
        self._blocks: list[Block] = []  # that `config` returned for that component

    def config(self, bilm_cfg: Block, tok2vec_cfg: Block) -> Block:
        """Return the block for a path: that of a listener until `model` fills it, since
        spaCy may refuse a later path, and then the listener stays."""
        if not any(tok2vec_cfg is each for each in (self._tok2vec, *self._blocks)):
            self._tok2vec, self._blocks = tok2vec_cfg, []
        self._bilm = bilm_cfg
        first = next(_listeners_in(self._tok2vec), {"@architectures": LISTENER})
        self._blocks.append(dict(first))
        return self._blocks[-1]

    @default_settings()
    def model(self, copied: Encoder, listener: ElmoListener, upstream: Any) -> OwnElmo:
        """Return a tok2vec of its own in a listener's place, whose mix it keeps."""
        shim = shim_of(copied)
        self._fill(listener, upstream, shim)
        shim.unfreeze(upstream.n_layers)
        if upstream.finds_weights:  # perhaps newer ones than spaCy has copied
            shim.set_weights(copy.deepcopy(upstream.bilm), upstream.name)
        model = OwnElmo(copied, upstream.frozen, listener.settings)
        model.copy_mix(listener)
        return model

    def _fill(self, listener: ElmoListener, upstream: Any, shim: BiLMShim) -> None:
        """Fill the block of a listener with its replacement. If spaCy was given the
        path of the tok2vec around the listeners, fill it with that tok2vec, in which
        the listeners are replaced."""
        # One block for each listener that the component still has. The blocks before
        # them are filled, or belong to a call that spaCy refused.
        lists = upstream.listener_map.values()
        n_empty = next(len(each) for each in lists if listener in each)
        empty = self._blocks[-n_empty:]
        if empty[0].get("@architectures") != LISTENER:
            return  # the first listener has filled the blocks of all
        settings = asdict(listener.settings)
        own = {
            "@architectures": TOK2VEC,
            "bilm": {**self._bilm, **shim.bilm.config.to_dict()},
            "frozen": upstream.frozen,
            "learn_rate_factor": shim.learn_rate_factor,
        }
        inside = list(_listeners_in(self._tok2vec))
        ours = [
            each
            for each in inside
            if each is not self._tok2vec
            and each.get("upstream", "*") in ("*", upstream.name)
        ]
        if not ours or any(each is block for each in inside for block in empty):
            _replace(empty[0], own | settings)  # the path was that of the listener
            return
        for each in ours:
            kept = {name: each[name] for name in settings if name in each}
            _replace(each, own | kept)
        for block in empty:
            _replace(block, self._tok2vec)


def _replace(block: Block, content: Block) -> None:
    """Give a block another content. It stays the same object."""
    block.clear()
    block.update(content)


def _listeners_in(block: Block) -> Iterator[Block]:
    """Yield the blocks of listeners in a block, which can be one itself."""
    if block.get("@architectures") == LISTENER:
        yield block
    for value in block.values():
        if isinstance(value, dict):
            yield from _listeners_in(value)


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
