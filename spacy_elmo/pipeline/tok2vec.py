"""A biLM and a mix owned by one component: what `replace_listeners` puts in place."""

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
    """What spaCy calls to replace the listeners of a component: first `config`, for
    each path that it was given, and then `model`, for each listener. A path is of a
    listener, or of the tok2vec that the listener is in."""

    def __init__(self) -> None:
        self._tok2vec: Block = {}  # of the component whose listeners are replaced
        self._blocks: list[Block] = []  # that `config` returned and `model` is to fill

    def config(self, bilm_cfg: Block, tok2vec_cfg: Block) -> Block:
        """Return the block for a path. `model` fills it, which knows the listener."""
        if not any(tok2vec_cfg is each for each in (self._tok2vec, *self._blocks)):
            self._tok2vec, self._blocks = tok2vec_cfg, []
        self._blocks.append({"bilm": bilm_cfg})
        return self._blocks[-1]

    @default_settings()
    def model(self, copied: Encoder, listener: ElmoListener, upstream: Any) -> OwnElmo:
        """Return a tok2vec of its own in a listener's place, whose mix it keeps."""
        shim = shim_of(copied)
        self._fill(listener, upstream, shim)
        shim.unfreeze(upstream.n_layers)
        if upstream.has_default_weights:  # perhaps newer ones than spaCy has copied
            shim.set_weights(copy.deepcopy(upstream.bilm), upstream.name)
        model = OwnElmo(copied, upstream.frozen, listener.settings)
        model.copy_mix(listener)
        return model

    def _fill(self, listener: ElmoListener, upstream: Any, shim: BiLMShim) -> None:
        """Fill the first block that waits: with a tok2vec, or with all that is around
        the listeners, if spaCy was given the path of that."""
        inside = list(_blocks_in(self._tok2vec))
        is_listener = self._tok2vec.get("@architectures") == LISTENER or any(
            each is block for each in inside for block in self._blocks
        )
        block, settings = self._blocks.pop(0), asdict(listener.settings)
        own = {
            "@architectures": TOK2VEC,
            "bilm": {**block.pop("bilm"), **shim.bilm.config.to_dict()},
            "frozen": upstream.frozen,
            "learn_rate_factor": shim.learn_rate_factor,
        }
        if is_listener:
            block.update(own | settings)
            return
        for each in inside:
            is_ours = each.get("upstream", "*") in ("*", upstream.name)
            if each.get("@architectures") == LISTENER and is_ours:
                kept = {name: each[name] for name in settings if name in each}
                each.clear()
                each.update(own | kept)
        block.update(self._tok2vec)


def _blocks_in(block: Block) -> Iterator[Block]:
    """Yield a block and the blocks in it."""
    yield block
    for value in block.values():
        if isinstance(value, dict):
            yield from _blocks_in(value)


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
