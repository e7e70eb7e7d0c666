"""The `elmo` component: one run of the biLM for `doc.tensor` and all listeners."""

import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer
from thinc.types import Floats2d, Floats3d

from .. import models as shipped
from ..bilm import BiLM
from ..errors import Errors, Warnings
from ..machine import default_settings
from .doc_layers import remember
from .doc_similarity import install_hooks
from .encoder import Encoder, cut, docs_at_once
from .fields import takes_fields_of
from .file_cache import open_cache
from .fine_tuning import FineTuning, ForwardPass
from .layer_batch import LayerBatch, nothing
from .layer_cache import LayerCache
from .layer_store import LayerReader, Reading
from .listened_to import ListenedTo
from .mix import first_mix
from .sentence_advice import SentenceAdvice
from .settings import ElmoSettings
from .stream import annotated
from .tok2vec import offer_replacement
from .with_weights import WithWeights


class Elmo(WithWeights, ListenedTo, TrainablePipe):
    """Satisfies `spacy.ty.ListenedToComponent` and `layers.listener.Upstream`.

    Args:
        vocab: Of the pipeline.
        model: `spacy-elmo.BiLM.v1`, whose L+1 layers have width D.
        name: Of the component.
        lang: Of the pipeline, whose biLM ships with this package, perhaps.
        settings: As in `ElmoSettings`.

    Raises:
        ValueError: [EL057, EL083] The mix fits no such biLM; also as `ElmoSettings`.
    """

    @takes_fields_of(ElmoSettings)
    def __init__(
        self,
        vocab: Vocab,
        model: Encoder,
        name: str = "elmo",
        *,
        lang: str = shipped.LANG,
        **settings: Any,
    ) -> None:
        super().__init__(vocab, model, name)
        self.cfg = None  # nothing to save beside the model
        self.lang = lang
        own = self.settings = ElmoSettings(**settings)
        weights = own.weights  # wherever the process works when they are loaded
        self.named_weights = None if weights is None else shipped.locate(weights)
        own.width(self.n_layers, self.width)
        own.first_weights(self.n_layers)
        self.sets_tensor = own.set_tensor
        self.listener_map: dict[str, list[Model[Any, Any]]] = {}
        self._asking = weakref.WeakSet[Model[Any, Any]]()
        self._linked = weakref.WeakSet[Model[Any, Any]]()
        self.sentence_advice = SentenceAdvice()
        self._cache_advice = True  # until it is said, or a cache or none was chosen
        offer_replacement(self.model, frozen=self.frozen)
        # What belongs to the Docs in flight, and no copy takes along.
        self._reader = LayerReader(model, self.settings.max_layers_mb << 20)
        self._tuning = FineTuning(model, own.learn_rate, own.unfreeze_every)

    def __reduce__(self) -> Any:
        self._tuning.complete()
        settings, weights = asdict(self.settings), self.named_weights
        if weights is not None and weights.parent != shipped.FOLDER:
            settings["weights"] = str(weights)
        build = partial(Elmo, lang=self.lang, **settings)
        names = "listener_map", "error_handler", *ListenedTo.LINKS
        state = {name: getattr(self, name) for name in names if hasattr(self, name)}
        # Not the components that they are a part of, which are perhaps not copied.
        state["linked"] = [(each, each.upstream is self) for each in self.linked]
        return build, (self.vocab, self.model, self.name), state

    def __setstate__(self, state: dict[str, Any]) -> None:
        for listener, is_first in state.pop("linked"):
            if is_first or listener.upstream is None:
                listener.connect(self)
            else:
                listener.connect_also(self)
            self._linked.add(listener)
        for name, value in state.items():
            setattr(self, name, value)

    # -- settings -----------------------------------------------------------------

    @property
    def frozen(self) -> bool:
        """Whether the biLM is not trained. It can be set while a pipeline is used."""
        return self.settings.frozen

    @frozen.setter
    def frozen(self, frozen: bool) -> None:
        self._tuning.complete()
        self.settings = replace(self.settings, frozen=frozen)
        offer_replacement(self.model, frozen=self.frozen)
        self.when_frozen(frozen)

    @property
    def is_trainable(self) -> bool:
        """Whether it learns itself, and so has a column of losses in logs."""
        return not self.frozen

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        weights: Callable[[], BiLM] | None = None,
        layer_cache: str | None = None,
        layer_cache_mb: int = 4096,
    ) -> None:
        """Load the weights, and keep layers if a layer_cache is named.

        Args:
            get_examples: Not used.
            nlp: Not used.
            weights: From `spacy-elmo.WeightsReader.v1`. Without it: those loaded, or
                named, or of this package if they fit, or, to be trained, random ones.
            layer_cache: As `where` of `use_layer_cache`, which raises [EL088]. None
                for the cache that there is, if there is one.
            layer_cache_mb: As `mb` of it.

        Raises:
            ValueError: [EL050, EL081] There are no weights. [EL052] They don't fit.
        """
        validate_get_examples(get_examples, "Elmo.initialize")
        self._tuning.restart()
        self._initialize_weights(weights)
        self._with_weights()
        self._cache_advice = False
        if layer_cache is not None or not self.frozen:
            self.use_layer_cache(layer_cache, layer_cache_mb)

    @property
    def layer_cache(self) -> LayerCache | None:
        """The cache that `use_layer_cache` made."""
        return self._reader.cache

    def use_layer_cache(self, where: str | Path | None, mb: int = 4096) -> None:
        """Keep the layers of sentences from now on, so that a text that is read many
        times is encoded once. The cache does not travel with the pipeline.

        On a CPU sentences have the same vectors in any batch, bit for bit, so nothing
        changes but the time.

        Args:
            where: A file, which other processes and later runs can use too; "memory",
                or None for no cache.
            mb: Its size at most.

        Raises:
            ValueError: [EL088] The biLM is not frozen. [EL086] The file is no layer
                cache, or damaged. [EL026] mb is below 0.
            OSError: [EL087] if the file can't be used.
        """
        self._cache_advice = False
        if where is not None and not self.frozen:
            raise ValueError(Errors.EL088.format(name=self.name))
        self._reader.cache = None
        if where is None:
            return
        self._reader.cache = open_cache(where, mb)

    # -- what listeners ask for (see listener.Upstream) ---------------------------

    def layers_for(
        self, listener: Model[Any, Any], docs: list[Doc], is_train: bool
    ) -> Iterator[LayerBatch]:
        """Yield layers of Docs for a listener, in order, some Docs at once."""
        if not is_train:
            self._tuning.complete_before(docs)
        if not self.has_weights:
            self._with_weights()
            if self.settings.weights is None:
                warnings.warn(Warnings.ELW04.format(name=self.name), stacklevel=2)
        if is_train:
            unread = [doc for doc in docs if not self.has_read(doc)]
            self.sentence_advice.check(self.name, cut(self.model, unread))
        self._asking.add(listener)
        if is_train and self.frozen and self._cache_advice:
            self._cache_advice = False
            warnings.warn(Warnings.ELW25.format(name=self.name), stacklevel=2)
        listeners = {id(each) for each in self.listeners}
        yield from self._reader.for_listener(id(listener), docs, listeners)

    def has_read(self, doc: Doc) -> bool:
        """Return whether the component has seen a Doc as it is."""
        return self._reader.store.record(doc).pieces is not None

    def add_gradient(self, docs: list[Doc], d_layers: Callable[[], LayerBatch]) -> None:
        """Add the gradient that a listener has for the layers of Docs."""
        self._tuning.add(docs, d_layers)

    def end_update(self, listener: Model[Any, Any]) -> None:
        """Complete the update if the component of a listener, which has finished its
        own, is the last one that listens."""
        last = self.listening_components[-1:]
        if any(listener in self.listener_map[name] for name in last):
            self._tuning.complete()

    @default_settings()
    def layers_of(self, doc: Doc) -> Floats3d:
        """Return the layers of a Doc that the component has seen, (L+1, T, D)."""
        self._tuning.complete_before([doc])
        self._with_weights()
        return self._reader.of_doc(doc)

    @default_settings()
    def vectors_of(self, doc: Doc) -> Floats2d:
        """Return the component's own mix of the layers of a Doc that it has seen, as
        `doc.tensor` would hold it, (T, D)."""
        return first_mix(self.model.ops, self.settings, self.layers_of(doc))

    @property
    def held_bytes(self) -> int:
        """Size of the layers that are held for listeners and users."""
        return self._reader.store.held_bytes

    # -- prediction ---------------------------------------------------------------

    @default_settings()
    def predict(self, docs: Iterable[Doc]) -> Reading:
        """Return Docs with the pieces that they were read in, and their layers."""
        docs = list(docs)
        self._tuning.complete_before(docs)
        self._with_weights()
        reading = self._reader.read(docs)
        self.sentence_advice.check(self.name, reading.docs)
        return reading

    @default_settings()
    def set_annotations(self, docs: Iterable[Doc], scores: Reading) -> None:
        """Set `doc.tensor` (T, D) to the component's own mix, and hold the layers for
        the listeners; [EL058, EL078] if they are of other tokens or not finite."""
        docs = list(docs)
        for doc, length in zip(docs, scores.layers.lengths):
            if length != len(doc):
                raise ValueError(Errors.EL058.format(found=length, expected=len(doc)))
        if self.writes_tensor:
            mixed = first_mix(self.model.ops, self.settings, scores.layers.values)
            for doc, tensor in zip(docs, scores.layers.split(mixed)):
                doc.tensor = tensor.copy()  # in memory of its own
        for doc in docs if self.settings.similarity_hooks else ():
            install_hooks(doc)
        self._hold(scores)

    def _hold(self, reading: Reading) -> None:
        readers = {id(listener) for listener in self.connected}
        reading.layers.check()
        self._reader.store.put(reading.docs, reading.layers, readers)
        for doc, _ in reading.docs:
            remember(doc, self)

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Yield Docs in order, with their vectors. At most batch_size are read at once,
        fewer if they are long or don't fit. A GPU's are checked while it reads more."""
        handle = partial(self.get_error_handler(), self.name, self)
        groups = docs_at_once(self.model, stream, batch_size)
        yield from annotated(groups, self._annotate, handle)

    def _annotate(self, docs: Sequence[Doc]) -> Callable[[], None]:
        reading = self.predict(docs)
        check, reading.layers.check = reading.layers.check, nothing
        self.set_annotations(docs, reading)
        return check

    # -- training -----------------------------------------------------------------

    @default_settings()
    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Encode the predicted Docs of examples for the listeners. The biLM learns, if
        it is not frozen, from the gradients that they add, when the update is finished.
        It has no loss of its own; drop is for the inputs of its LSTM layers."""
        losses = losses if losses is not None else {}
        examples = list(examples)
        validate_examples(examples, "Elmo.update")
        docs = [example.predicted for example in examples]
        if self.frozen:
            self._tuning.forget()
            self._hold(self.predict(docs))
            return losses
        losses.setdefault(self.name, 0.0)
        if self.layer_cache is not None:
            self._reader.cache = None
            warnings.warn(Warnings.ELW24.format(name=self.name), stacklevel=2)
        self._tuning.begin(drop)
        self._with_weights()
        cut_docs = cut(self.model, docs)
        self.sentence_advice.check(self.name, cut_docs)
        layers, backprop = self.model.begin_update(cut_docs)
        self._tuning.expect(ForwardPass(docs, layers.lengths, backprop))
        self._hold(Reading(cut_docs, layers))
        if sgd:
            self.finish_update(sgd)
        return losses

    @default_settings()
    def finish_update(self, sgd: Optimizer) -> None:
        """Let the biLM, if it is not frozen, learn from the listeners' gradients."""
        if not self.frozen:
            self._tuning.finish(sgd)

    def use_params(self, params: Any) -> Iterator[None]:
        """Have the weights hold averages, or other values, for a while."""
        self._tuning.complete()  # with the weights that it was made for
        with self.model.use_params(params):
            yield

    def get_loss(self, examples: Any, scores: Any) -> None:
        """Return None: there is no loss."""

    def add_label(self, label: str) -> int:
        """Raise NotImplementedError [EL059]: there are no labels."""
        raise NotImplementedError(Errors.EL059.format(name=self.name))

    # -- files --------------------------------------------------------------------

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return the component as bytes, with its weights."""
        self._sign_mixes()
        return super().to_bytes(exclude=exclude)

    def to_disk(self, path: Any, *, exclude: Iterable[str] = ()) -> None:
        """Write the component into a folder, with its weights."""
        self._sign_mixes()
        super().to_disk(path, exclude=exclude)
