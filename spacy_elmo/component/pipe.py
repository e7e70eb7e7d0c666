"""The `elmo` component: one run of the biLM for `doc.tensor` and all listeners."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer
from thinc.types import Floats2d, Floats3d

from .. import models as shipped
from ..bilm.bilm import BiLM
from ..errors import Errors, Warnings
from ..layers.encoder import DocPieces, Encoder, cut, docs_by_tokens, shim_of
from ..layers.fine_tuning import FineTuning
from ..layers.listened_to import ListenedTo
from ..layers.mix import mix
from ..layers.tok2vec import replace_listener, replace_listener_cfg
from . import cached
from .doc_layers import LayerStore, remember
from .layer_cache import LayerCache
from .similarity import install_hooks


class Elmo(ListenedTo, TrainablePipe):
    """Satisfies `spacy.ty.ListenedToComponent`.

    Shapes: L+1 layers, T tokens of a Doc, D width.
    """

    def __init__(
        self,
        vocab: Vocab,
        model: Encoder,
        name: str = "elmo",
        *,
        lang: str = shipped.LANG,
        frozen: bool = True,
        mix_weights: Sequence[float] | None = None,
        gamma: float = 1.0,
        set_tensor: bool = True,
        max_layers_mb: int = 1024,
        learn_rate: float | None = None,
        unfreeze_every: int = 200,
        similarity_hooks: bool = False,
    ) -> None:
        """Settings as of `factory.make_elmo`.

        Raises ValueError [EL057] if mix_weights are not one a layer, [EL093] if there
        are to be similarity_hooks and no tensor."""
        super().__init__(vocab, model, name)
        self.lang = lang
        self.frozen = frozen
        self.mix_weights = list(mix_weights or [0.0] * self.n_layers)
        self.gamma = gamma
        self.set_tensor = set_tensor
        self.max_layers_mb = max_layers_mb
        self.similarity_hooks = similarity_hooks
        if similarity_hooks and not set_tensor:
            raise ValueError(Errors.EL093.format(name=name))
        if len(self.mix_weights) != self.n_layers:
            found = len(self.mix_weights)
            raise ValueError(Errors.EL057.format(found=found, expected=self.n_layers))
        self.layer_cache: LayerCache | None = None
        self.listener_map: dict[str, list[Model]] = {}
        model.attrs["replace_listener"] = replace_listener
        model.attrs["replace_listener_cfg"] = partial(
            replace_listener_cfg, frozen=frozen
        )
        # What belongs to the Docs in flight, and no copy takes along.
        self._store = LayerStore(max_layers_mb << 20)
        self._tune(learn_rate, unfreeze_every)

    def __reduce__(self) -> Any:
        settings: dict[str, Any] = {
            "lang": self.lang,
            "frozen": self.frozen,
            "mix_weights": self.mix_weights,
            "gamma": self.gamma,
            "set_tensor": self.set_tensor,
            "max_layers_mb": self.max_layers_mb,
            "learn_rate": self._tuning.learn_rate,
            "unfreeze_every": self._tuning.unfreeze_every,
            "similarity_hooks": self.similarity_hooks,
        }
        build = partial(Elmo, **settings)
        state = {
            "listener_map": self.listener_map,
            "error_handler": getattr(self, "error_handler", None),
        }
        return build, (self.vocab, self.model, self.name), state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.listener_map = state["listener_map"]
        for listener in self.listeners:
            listener.connect(self)  # type: ignore[attr-defined]
        if state["error_handler"] is not None:
            self.error_handler = state["error_handler"]

    # -- sizes and weights --------------------------------------------------------

    @property
    def width(self) -> int:
        """D, the width of all vectors."""
        return shim_of(self.model).bilm_config.width

    @property
    def n_layers(self) -> int:
        """L+1, the token layer included."""
        return shim_of(self.model).bilm_config.n_layers + 1

    @property
    def bilm(self) -> BiLM:
        """The biLM with its weights. Raises ValueError if there are none, [EL081] if
        that is because nothing ships for the language, else [EL050]."""
        return self._with_weights().bilm

    def load_weights(self, path: str | Path) -> None:
        """Take weights from a model folder in any format, or a shipped model by name.

        Raises ValueError [EL052] if its sizes are not those of the configuration, and
        as `BiLM.load`.
        """
        shim_of(self.model).set_weights(BiLM.load(shipped.find(path)), path)
        self._forget_docs()

    def _forget_docs(self) -> None:
        """Layers that other weights made are not to be read any more."""
        self._store.release()
        self._tuning.forget()

    def _with_weights(self) -> Any:
        """The shim, with the weights of this package if it has none and they fit."""
        shim = shim_of(self.model)
        if not shim.has_weights:
            if shim.bilm_config.to_dict() != shipped.sizes():
                raise ValueError(Errors.EL050.format(name=self.name))
            shim.set_weights(shipped.load(self.lang), shipped.MODELS[self.lang])
        return shim

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        weights: Callable[[], BiLM] | None = None,
        layer_cache: str | None = None,
        layer_cache_mb: int = 4096,
    ) -> None:
        """Load the weights.

        weights: from `spacy-elmo.WeightsReader.v1`. Without it: what has been loaded
            before, or the weights of this package if they fit, or, if the biLM is to be
            trained here, random ones.
        layer_cache, layer_cache_mb: as of `use_layer_cache`.
        Raises ValueError [EL050, EL052, EL081, EL088].
        """
        validate_get_examples(get_examples, "Elmo.initialize")
        shim = shim_of(self.model)
        self._forget_docs()
        self._tune(self._tuning.learn_rate, self._tuning.unfreeze_every)
        if weights is not None:
            path = getattr(weights, "path", "[initialize]")
            bilm = shipped.load(self.lang) if path is None else weights()
            shim.set_weights(bilm, path or shipped.MODELS[self.lang])
        elif not (shim.has_weights or self.frozen) and (
            shim.bilm_config.to_dict() != shipped.sizes()
        ):
            if shim.bilm_config.n_words:  # rows of unknown words mean nothing
                raise ValueError(Errors.EL050.format(name=self.name))
            warnings.warn(Warnings.ELW03.format(name=self.name), stacklevel=2)
            shim.set_weights(BiLM.random(shim.bilm_config), "random")
        # Training reads every sentence many times, in batches that are never the same.
        self._with_weights().set_exact(True)
        self.use_layer_cache(layer_cache, layer_cache_mb)

    def use_layer_cache(self, where: str | Path | None, mb: int = 4096) -> None:
        """Keep the layers of sentences from now on, so that a text that is read many
        times is encoded once. It does not travel with the pipeline.

        where: a file, which other processes and later runs can use too; "memory", or
            None for no cache. mb: its size at most.
        The biLM then gives sentences the same vectors to the last bit in any batch, as
        far as `BiLM.set_exact` can, so nothing changes but the time.
        Raises ValueError [EL088] if the biLM is not frozen."""
        if where is not None and not self.frozen:
            raise ValueError(Errors.EL088.format(name=self.name))
        path = None if where in (None, "memory") else Path(where)
        self.layer_cache = None if where is None else LayerCache(path, mb << 20)
        if self.layer_cache is not None:
            shim_of(self.model).set_exact(True)

    # -- what listeners ask for (see listener.Upstream) ---------------------------

    def layers_for(self, listener: Model, docs: list[Doc]) -> list[Floats3d]:
        """Layers of Docs for a listener; released once every listener has had them."""
        if not shim_of(self.model).has_weights:
            self._with_weights()
            warnings.warn(Warnings.ELW04.format(name=self.name), stacklevel=2)
        layers = self._layers(docs)
        for doc in docs:
            self._store.was_read(doc, id(listener))
        return layers

    def learns_from(self, doc: Doc) -> bool:
        return doc in self._tuning.deferred

    def add_gradient(self, doc: Doc, d_layers: Floats3d) -> None:
        self._tuning.deferred.add(doc, d_layers)

    @property
    def learn_rate(self) -> float | None:
        """Of the biLM while it is fine-tuned, None for the optimizer's."""
        return self._tuning.learn_rate

    def _tune(self, learn_rate: float | None, unfreeze_every: int) -> None:
        """Begin to learn from the start."""
        self._tuning = FineTuning(
            self.model, self._no_gradient, learn_rate, unfreeze_every
        )

    def _no_gradient(self, doc: Doc) -> Floats3d:
        return self.model.ops.alloc3f(self.n_layers, len(doc), self.width)

    def layers_of(self, doc: Doc) -> Floats3d:
        """Layers of a Doc that the component has seen: (L+1, T, D)."""
        (layers,) = self._layers([doc])
        if self._store.layers(doc) is None:
            self._store.keep(doc, layers)
            self._store.trim()
        if isinstance(layers, np.ndarray):  # cupy's can't be protected
            layers.flags.writeable = False
        return layers

    def _layers(self, docs: list[Doc]) -> list[Floats3d]:
        """Layers that are held, and for the other Docs computed anew, from the same
        pieces as before whatever has been annotated since."""
        found = {id(doc): self._store.layers(doc) for doc in docs}
        missing = [doc for doc in docs if found[id(doc)] is None]
        if missing:
            self._with_weights()
            inputs = [self._as_cut_before(doc) for doc in missing]
            computed = self._encode(inputs)
            found.update(zip(map(id, missing), computed))
        return [found[id(doc)] for doc in docs]  # type: ignore[misc]

    def _encode(self, inputs: list[DocPieces]) -> list[Floats3d]:
        if self.layer_cache is None:
            return self.model.predict(inputs)
        return cached.predict(self.model, inputs, self.layer_cache)

    def _as_cut_before(self, doc: Doc) -> DocPieces:
        pieces = self._store.pieces(doc)
        return cut(self.model, [doc])[0] if pieces is None else DocPieces(doc, pieces)

    # -- prediction ---------------------------------------------------------------

    def predict(self, docs: Iterable[Doc]) -> list[tuple[list[Any], Floats3d]]:
        """RETURNS: for each Doc its pieces and its layers (L+1, T, D)."""
        self._with_weights()
        inputs = cut(self.model, list(docs))
        layers = self._encode(inputs)
        return [(pieces, layers_LTD) for (_, pieces), layers_LTD in zip(inputs, layers)]

    def set_annotations(
        self, docs: Iterable[Doc], scores: list[tuple[list[Any], Floats3d]]
    ) -> None:
        """Set `doc.tensor` (T, D) to the component's own mix, and keep the layers for
        the listeners."""
        docs = list(docs)
        for doc, tensor in zip(docs, self._own_mix([layers for _, layers in scores])):
            if len(tensor) != len(doc):
                raise ValueError(
                    Errors.EL058.format(found=len(tensor), expected=len(doc))
                )
            if self.set_tensor:
                doc.tensor = tensor  # type: ignore[assignment]
            if self.similarity_hooks:
                install_hooks(doc)
        self._keep(docs, scores)

    def _own_mix(self, layers: list[Floats3d]) -> list[Floats2d]:
        ops = self.model.ops
        return mix(
            ops, layers, ops.asarray1f(self.mix_weights), ops.asarray1f([self.gamma])
        )

    def _keep(self, docs: list[Doc], found: list[tuple[list[Any], Floats3d]]) -> None:
        readers = {id(listener) for listener in self.listeners}
        for doc, (pieces, layers) in zip(docs, found):
            self._store.put(doc, pieces, layers, readers)
            remember(doc, self)
        self._store.trim()

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Docs in order, batch_size at once at most, fewer if they are long."""
        error_handler = self.get_error_handler()
        for docs in docs_by_tokens(stream, batch_size):
            try:
                self.set_annotations(docs, self.predict(docs))
            except Exception as error:  # the user's error handler decides, as in spaCy
                error_handler(self.name, self, docs, error)
            else:
                yield from docs

    # -- training -----------------------------------------------------------------

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Encode the examples for the listeners. The biLM learns, if it is not frozen,
        from the gradients that they add, when the update is finished. The component has
        no loss of its own. drop: not used, listeners' components have their own."""
        losses = losses if losses is not None else {}
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, "Elmo.update")
        docs = [example.predicted for example in examples]
        if self.frozen:
            self._tuning.forget()
        else:
            self._tuning.begin()
        self._with_weights()
        inputs = cut(self.model, docs)
        if self.frozen:
            layers = self._encode(inputs)
        else:
            layers, backprop = self.model.begin_update(inputs)
            self._tuning.deferred.expect(docs, backprop)
        found = [
            (pieces, layers_LTD) for (_, pieces), layers_LTD in zip(inputs, layers)
        ]
        self._keep(docs, found)
        if sgd:
            self.finish_update(sgd)
        return losses

    def finish_update(self, sgd: Optimizer) -> None:
        if not self.frozen:
            self._tuning.finish(sgd)

    def get_loss(self, examples: Any, scores: Any) -> None:
        return None

    def add_label(self, label: str) -> int:
        raise NotImplementedError(Errors.EL059.format(name=self.name))

    # -- files --------------------------------------------------------------------

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        self._with_weights()
        return super().to_bytes(exclude=exclude)

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> "Elmo":
        super().from_bytes(data, exclude=exclude)
        self._forget_docs()
        return self

    def from_disk(self, path: Any, *, exclude: Iterable[str] = ()) -> "Elmo":
        super().from_disk(path, exclude=exclude)
        self._forget_docs()
        return self

    def to_disk(self, path: Any, *, exclude: Iterable[str] = ()) -> None:
        self._with_weights()
        super().to_disk(path, exclude=exclude)
