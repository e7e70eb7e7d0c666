"""The `elmo` component: one run of the biLM for `doc.tensor` and all listeners."""

import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import srsly
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.pipeline.tok2vec import Tok2Vec, Tok2VecListener
from spacy.schemas import validate_init_settings
from spacy.tokens import Doc
from spacy.training import Example, validate_examples
from spacy.util import registry
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer, use_ops
from thinc.types import Floats2d, Floats3d

from .. import models as shipped
from ..bilm import BiLM, compute_what_fits
from ..errors import ElmoWarning, Errors, Warnings
from ..files import parsing, reading
from ..machine import ProcessLock, default_settings
from .cache import LayerCache, open_cache
from .doc_vectors import install_hooks
from .encoder import Encoder, LayerBatch, cut, group_docs, nothing, shim_of
from .fine_tuning import ForwardPass, fine_tuning_of
from .layers import EncodedDocs, SharedLayers, remember
from .listener import ElmoListener, infer_widths_of_residuals
from .mix import first_mix, nodes_of
from .settings import ElmoSettings
from .shim import SAVED, SAVED_AS, BiLMShim
from .tok2vec import Replacement
from .windows import SentenceAdvice


class Elmo(TrainablePipe):
    """The component `elmo`: it encodes Docs with a biLM, sets `doc.tensor`, and gives
    the layers to listeners. It satisfies `spacy.ty.ListenedToComponent`.

    Args:
        vocab: Vocab of the pipeline.
        model: `spacy-elmo.BiLM.v1`, whose L+1 layers have width D.
        name: Name of the component.
        settings: The settings of `[components.elmo]` except the model; None for the
            defaults.
        lang: Language of the pipeline, to find its shipped biLM.

    Raises:
        ValueError: [EL083, EL085] The mix does not fit the biLM.
    """

    # Returns the pipeline that it was made for, or None if that is gone.
    pipeline: Callable[[], Language | None] = staticmethod(lambda: None)
    _is_initialized = False
    _warned_of: frozenset[str] = frozenset()

    def __init__(
        self,
        vocab: Vocab,
        model: Encoder,
        name: str = "elmo",
        *,
        settings: ElmoSettings | None = None,
        lang: str = shipped.LANG,
    ) -> None:
        super().__init__(vocab, model, name)
        # Settings that were changed, which spaCy saves beside the model.
        self.cfg: dict[str, Any] | None = None
        self.lang = lang
        own = self.settings = settings or ElmoSettings()
        weights = own.weights  # found from here, wherever they are loaded later
        self.named_weights = None if weights is None else shipped.locate(weights)
        if weights is None or self._shim.sizes_are_fixed:
            self._check_mix()  # else the sizes come with the weights
        self.listener_map = {}
        # Listeners that have asked for layers, by their ids, and all that were ever
        # connected, in whatever pipeline: spaCy lists those of the one that was changed
        # last.
        self._asking = weakref.WeakValueDictionary[int, Model[Any, Any]]()
        self.linked = weakref.WeakSet[ElmoListener]()
        self._sentence_advice = SentenceAdvice()
        self._cache_advice = True  # until it is given, or a cache or none was chosen
        # The state of Docs in flight, which no copy takes along.
        self._loading = ProcessLock()
        self._layers = SharedLayers(model, own.max_layers_mb << 20)
        self._tuning = fine_tuning_of(model, own)
        replacement = Replacement()  # of its listeners
        model.attrs["replace_listener"] = replacement.model
        model.attrs["replace_listener_cfg"] = replacement.config

    def __reduce__(self) -> Any:
        self._tuning.complete()
        settings, weights = self.settings, self.named_weights
        if weights is not None and weights.parent != shipped.FOLDER:
            settings = replace(settings, weights=str(weights))
        build = partial(Elmo, lang=self.lang, settings=settings)
        links = "listener_map", "_later_tok2vecs", "_tensor_readers"
        names = *links, "error_handler", "cfg"
        state = {name: getattr(self, name) for name in names if hasattr(self, name)}
        # Listeners without their components, which are perhaps not copied.
        state["linked"] = [(each, each.upstream is self) for each in list(self.linked)]
        return build, (self.vocab, self.model, self.name), state

    def __setstate__(self, state: dict[str, Any]) -> None:
        for listener, is_upstream in state.pop("linked"):
            if is_upstream or listener.upstream is None:
                listener.connect(self)
            self.linked.add(listener)
        for name, value in state.items():
            setattr(self, name, value)

    # -- settings -----------------------------------------------------------------

    @property
    def frozen(self) -> bool:
        """Whether the biLM is not trained. It can be set while a pipeline is used, and
        is saved with the component."""
        return self.settings.frozen

    @frozen.setter
    def frozen(self, frozen: bool) -> None:
        self._tuning.complete()
        self.settings = replace(self.settings, frozen=frozen)
        self.cfg = {"frozen": frozen}

    @property
    def is_trainable(self) -> bool:
        """Whether the component is trained, and so has a column of losses in logs."""
        return not self.frozen

    @property
    def width(self) -> int:
        """D, the width of all vectors."""
        return self._shim.bilm.config.width

    @property
    def n_layers(self) -> int:
        """L+1, the token layer included."""
        return self._shim.bilm.config.n_layers + 1

    @property
    def _shim(self) -> BiLMShim:
        return shim_of(self.model)

    def _check_mix(self) -> None:
        self.settings.width(self.n_layers, self.width)
        self.settings.first_weights(self.n_layers)

    # -- weights ------------------------------------------------------------------

    @property
    def bilm(self) -> BiLM:
        """The biLM with its weights. Raises ValueError [EL081] if nothing ships for the
        language, [EL050] if there are none for another reason."""
        self._tuning.complete()
        return self._with_weights().bilm

    @property
    def has_weights(self) -> bool:
        """Whether weights have been loaded, or were taken from this package."""
        return self._shim.has_weights

    @property
    def finds_weights(self) -> bool:
        """Whether it has weights, or can load some: named ones, or some of this package
        that fit."""
        fit = self._shim.bilm.config.to_dict() == shipped.sizes()
        return self.has_weights or self.named_weights is not None or fit

    def fingerprint(self) -> str:
        """Return the fingerprint of the weights. Raises as `bilm`."""
        self._tuning.complete()
        return self._with_weights().fingerprint()

    def load_weights(self, path: str | Path) -> None:
        """Load weights from a model folder in any format, or from a shipped model by
        name.

        Raises:
            ValueError: [EL052] The weights have other sizes than the component. Also as
                `BiLM.load`.
        """
        path = shipped.find(path)
        bilm = BiLM.load(path)
        if self.has_weights:
            self._record_fingerprints()  # with the weights that they were trained with
        self._take(bilm, path)
        self._check_mixes()

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        weights: Callable[[], BiLM] | None = None,
        layer_cache: str | None = None,
        layer_cache_mb: int = 4096,
    ) -> None:
        """Load the weights, and use a layer cache if one is named.

        Args:
            get_examples: Not used.
            nlp: Not used.
            weights: A function that returns the biLM (`spacy-elmo.WeightsReader.v1`).
                None for the weights that are loaded, or else named, or else shipped if
                they fit, or else, if the biLM is trained, random ones.
            layer_cache: As `where` of `use_layer_cache`. None keeps the present cache,
                if there is one.
            layer_cache_mb: As `mb` of `use_layer_cache`.

        Raises:
            ValueError: [EL050, EL081] There are no weights. [EL052] They don't fit.
        """
        self._is_initialized = True
        self._tuning.complete()  # the weights may stay
        self._tuning = fine_tuning_of(self.model, self.settings)
        config = self._shim.bilm.config
        if weights is not None:
            path = getattr(weights, "path", "[initialize]")
            if path is None:  # a reader that leaves it to the component
                self._take_found_weights()
            else:
                self._take(weights(), path)
        elif not (self.frozen or self.finds_weights):
            if config.n_words:  # rows of unknown words mean nothing
                raise Errors.EL050(name=self.name)
            warnings.warn(Warnings.ELW03(name=self.name), stacklevel=2)
            self._take(BiLM.random(config), "random")
        self._with_weights()
        self._cache_advice = False
        if layer_cache is not None or not self.frozen:
            self.use_layer_cache(layer_cache, layer_cache_mb)

    def initialize_for(self, listener: ElmoListener) -> None:
        """Initialise this component, as `[initialize.components]` says, before a
        listener in its pipeline. spaCy does not do it where the component is listed in
        training.frozen_components. If it has weights, they stay."""
        nlp = self.pipeline()
        if nlp is None or self._is_initialized or not _holds(nlp, self, listener):
            return
        blocks = nlp.config.interpolate()["initialize"]["components"]
        settings = validate_init_settings(
            self.initialize,
            registry.resolve({"elmo": blocks.get(self.name, {})})["elmo"],
            section="components",
            name=self.name,
        )
        if self.has_weights:
            settings["weights"] = None
        if settings["weights"] is not None or self.finds_weights:
            self.initialize(list, **settings)

    def _with_weights(self) -> BiLMShim:
        """Return the shim, with weights. Raises as `bilm`."""
        shim = self._shim
        if shim.has_weights:
            return shim
        with self._loading:
            if not shim.has_weights:  # else another thread has loaded them meanwhile
                if not self.finds_weights:
                    raise Errors.EL050(name=self.name)
                self._take_found_weights()
                self._check_mixes()
        return shim

    def _take_found_weights(self) -> None:
        """Load the weights that are named, or those of this package."""
        named = self.named_weights
        path = shipped.folder(self.lang) if named is None else shipped.find(named)
        self._take(BiLM.load(path), path)

    def _take(self, bilm: BiLM, path: str | Path) -> None:
        """Use the weights of a biLM that was loaded from a path."""
        version = shipped.name_and_version(path)  # can fail, before anything is taken
        # Thinc's ops, which say on what device, are the CPU's in another thread.
        with use_ops(self.model.ops.name):
            self._shim.set_weights(bilm, path, version)
        self._check_mix()
        self._tell_pipeline()

    def _tell_pipeline(self) -> None:
        """Write into the meta of the pipeline which weights the component has."""
        nlp, origin = self.pipeline(), self._shim.origin
        if nlp is not None and origin is not None:
            told = nlp.meta.get("elmo", {})
            kept = {name: told[name] for name in told if name in nlp.component_names}
            ours = [name for name, component in nlp.components if component is self]
            nlp.meta["elmo"] = kept | dict.fromkeys(ours, origin)

    # -- a cache of layers --------------------------------------------------------

    @property
    def layer_cache(self) -> LayerCache | None:
        """The cache that `use_layer_cache` made."""
        return self._layers.cache

    def use_layer_cache(self, where: str | Path | None, mb: int = 4096) -> None:
        """Keep the layers of sentences from now on, so that a text that is read many
        times is encoded once. The cache is not saved with the pipeline.

        On a CPU a sentence has the same vectors in any batch, bit for bit, so a cache
        changes nothing but the time.

        Args:
            where: A file, which other processes and later runs can use, too; "memory";
                or None for no cache.
            mb: Largest size of the cache, in megabytes.

        Raises:
            ValueError: [EL088] The biLM is not frozen. [EL086] The file is damaged, or
                is not a layer cache. [EL026] mb is below 0.
            OSError: [EL087] The file can't be used.
        """
        self._cache_advice = False
        if where is not None and not self.frozen:
            raise Errors.EL088(name=self.name)
        self._layers.cache = None
        if where is not None:
            self._layers.cache = open_cache(where, mb)

    # -- who listens (see spacy.ty.ListenedToComponent) ---------------------------

    @property
    def listener_map(self) -> dict[str, list[Model[Any, Any]]]:
        """Listeners of each component that has some. spaCy sets an empty one and has
        them found again, from here to the end, whenever the pipeline changes."""
        return self._listener_map

    @listener_map.setter
    def listener_map(self, found: dict[str, list[Model[Any, Any]]]) -> None:
        self._listener_map = found
        self._is_hidden = False  # from later "*" listeners, by a nearer component
        self._later_tok2vecs: set[str] = set()
        self._tensor_readers: set[str] = set()  # components, of an earlier tok2vec's

    @property
    def listeners(self) -> list[Model[Any, Any]]:
        """The listeners of all components."""
        return [model for models in self._listener_map.values() for model in models]

    @property
    def writes_tensor(self) -> bool:
        """Whether this component writes `doc.tensor`: not where that of an earlier
        `tok2vec` is still to be read."""
        return self.settings.set_tensor and not self._tensor_readers

    @property
    def owns_tensor(self) -> bool:
        """Whether `doc.tensor` holds vectors of this component where a Doc leaves the
        pipeline."""
        return self.writes_tensor and not self._later_tok2vecs

    @property
    def listening_components(self) -> list[str]:
        """Names of the components that have listeners."""
        return list(self.listener_map)

    def add_listener(self, listener: Model[Any, Any], component_name: str) -> None:
        """Have a listener listen to this component. Raises ValueError [EL054, EL060,
        EL083] if it does not fit."""
        previous = getattr(listener, "upstream", None)
        if previous is not None and previous is not self:
            for name in previous.listening_components:
                previous.remove_listener(listener, name)
        listener.connect(self)  # type: ignore[attr-defined]
        self.linked.add(listener)  # type: ignore[arg-type]
        models = self.listener_map.setdefault(component_name, [])
        if listener not in models:
            models.append(listener)

    def remove_listener(self, listener: Model[Any, Any], component_name: str) -> bool:
        """Remove a listener of a component. Return whether it had it."""
        self._asking.pop(id(listener), None)
        models = self.listener_map.get(component_name, [])
        # Another list: spaCy goes through this one while it replaces listeners.
        rest = [model for model in models if model is not listener]
        if rest:
            self.listener_map[component_name] = rest
        else:
            self.listener_map.pop(component_name, None)
        return len(rest) < len(models)

    def find_listeners(self, component: Any) -> None:
        """Have the listeners in the model of a later component listen to this one, if
        they name it or none."""
        if isinstance(component, Elmo):
            self._is_hidden = True
        names = (self.name,) if self._is_hidden else ("*", self.name)
        for node in nodes_of(component):
            if isinstance(node, ElmoListener) and node.upstream_name in names:
                self.add_listener(node, component.name)
                infer_widths_of_residuals(component.model)
            if isinstance(node, Tok2VecListener) and self.settings.set_tensor:
                # At prediction it reads the doc.tensor of a tok2vec, perhaps of one
                # that stands before this component.
                later, wanted = self._later_tok2vecs, node.upstream_name
                if not (later if wanted == "*" else wanted in later):
                    self._tensor_readers.add(component.name)
                    self._warn_once(Warnings.ELW22, component.name)
        if isinstance(component, Tok2Vec):
            self._later_tok2vecs.add(component.name)
            if self.settings.set_tensor:
                self._warn_once(Warnings.ELW21, component.name)

    def _warn_once(self, kind: type[ElmoWarning], other: str) -> None:
        warning = kind(name=self.name, other=other)
        if str(warning) not in self._warned_of:
            self._warned_of |= {str(warning)}
            warnings.warn(warning, stacklevel=2)

    def _check_mixes(self) -> None:
        for listener in list(self.linked):
            listener.check_weights(self)

    def _record_fingerprints(self) -> None:
        """Have the listeners record the weights that their mixes were trained with.
        They are saved after this component."""
        self.fingerprint()  # takes the weights that are saved, if there are none
        for listener in list(self.linked):
            listener.record_fingerprint(self)

    # -- what listeners ask for ---------------------------------------------------

    def layers_for(
        self, listener: Model[Any, Any], docs: list[Doc], is_train: bool
    ) -> Iterator[LayerBatch]:
        """Yield the layers of Docs for a listener, in order, a group of Docs at a
        time."""
        if not is_train:
            self._tuning.complete_before(docs)
        if not self.has_weights:
            self._with_weights()
            if self.settings.weights is None:
                warnings.warn(Warnings.ELW04(name=self.name), stacklevel=2)
        if is_train:
            unread = cut(self.model, [doc for doc in docs if not self.has_read(doc)])
            self._sentence_advice.give(unread, self)
        self._asking[id(listener)] = listener
        if is_train and self.frozen and self._cache_advice:
            self._cache_advice = False
            warnings.warn(Warnings.ELW25(name=self.name), stacklevel=2)
        listeners = {id(each) for each in self.listeners}
        yield from self._layers.for_listener(id(listener), docs, listeners)

    def has_read(self, doc: Doc) -> bool:
        """Return whether the component has encoded a Doc with the tokens that it has
        now."""
        return self._layers.store.record(doc).pieces is not None

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
        """Return the layers of a Doc that the component has read, (L+1, T, D)."""
        self._tuning.complete_before([doc])
        self._with_weights()
        return self._layers.of_doc(doc)

    @default_settings()
    def vectors_of(self, doc: Doc) -> Floats2d:
        """Return the component's own mix of the layers of a Doc that it has read, as
        `doc.tensor` would hold it, (T, D)."""
        return first_mix(self.model.ops, self.settings, self.layers_of(doc))

    @property
    def held_bytes(self) -> int:
        """Bytes of the layers that are kept for listeners and users."""
        return self._layers.store.held_bytes

    # -- prediction ---------------------------------------------------------------

    @default_settings()
    def predict(self, docs: Iterable[Doc]) -> EncodedDocs:
        """Return Docs with the pieces that they were read in, and their layers."""
        docs = list(docs)
        if not self.frozen:
            self._tuning.complete_before(docs)
        self._with_weights()
        encoded = self._layers.encode(docs)
        self._sentence_advice.give(encoded.docs, self)
        return encoded

    @default_settings()
    def set_annotations(self, docs: Iterable[Doc], scores: EncodedDocs) -> None:
        """Set `doc.tensor` (T, D) to the component's own mix, and hold the layers for
        the listeners. Raises ValueError [EL058, EL078] if the layers are of other
        tokens, or not finite."""
        docs = list(docs)
        for doc, length in zip(docs, scores.layers.lengths):
            if length != len(doc):
                raise Errors.EL058(found=length, expected=len(doc))
        if self.writes_tensor:
            mixed = first_mix(self.model.ops, self.settings, scores.layers.values)
            for doc, tensor in zip(docs, scores.layers.split(mixed)):
                doc.tensor = tensor.copy()  # in memory of its own
        for doc in docs if self.settings.similarity_hooks else ():
            install_hooks(doc)
        self._hold(scores)

    def _hold(self, encoded: EncodedDocs) -> None:
        # spaCy lists no listeners of a disabled component that is enabled later, and
        # none of the pipeline that this component was sourced from.
        # A list of them: in another thread one may ask meanwhile.
        asking = [reference() for reference in self._asking.valuerefs()]
        listeners = {id(each) for each in asking if each is not None}
        listeners |= {id(each) for each in self.listeners}
        encoded.layers.check()
        self._layers.store.put(encoded.docs, encoded.layers, listeners)
        for doc, _ in encoded.docs:
            remember(doc, self)

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Yield Docs in order, with their vectors. At most batch_size are read at once,
        and fewer if they are long or don't fit. The vectors on a GPU are checked while
        it reads the next Docs."""
        handle = partial(self.get_error_handler(), self.name, self)
        unchecked: Sequence[Doc] = []
        check: Callable[[], None] = nothing

        def check_before() -> None:  # the Docs were yielded already
            try:
                check()
            except Exception as error:  # noqa: BLE001 (spaCy's handlers get all)
                handle(unchecked, error)

        for group in group_docs(self.model, stream, batch_size):
            docs: Sequence[Doc] = group
            parts = compute_what_fits([docs], self._annotate, len)
            while docs:
                try:
                    some, check_next = next(parts)
                except Exception as error:  # noqa: BLE001
                    handle(docs, error)
                    break
                check_before()
                unchecked, check, docs = some, check_next, docs[len(some) :]
                yield from some
        check_before()

    def _annotate(self, docs: Sequence[Doc]) -> Callable[[], None]:
        """Annotate Docs. Return a check of their vectors, which waits for a GPU."""
        encoded = self.predict(docs)
        check, encoded.layers.check = encoded.layers.check, nothing
        self.set_annotations(docs, encoded)
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

        Args:
            examples: Of one batch.
            drop: Dropout of the inputs of the LSTM layers.
            sgd: Finishes the update, if it is given.
            losses: Returned as they are: the biLM has no loss of its own.
        """
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
            self._layers.cache = None
            warnings.warn(Warnings.ELW24(name=self.name), stacklevel=2)
        self._tuning.begin(drop)
        self._with_weights()
        cut_docs = cut(self.model, docs)
        self._sentence_advice.give(cut_docs, self)
        layers, backprop = self.model.begin_update(cut_docs)
        self._tuning.expect(ForwardPass(docs, layers.lengths, backprop))
        self._hold(EncodedDocs(cut_docs, layers))
        if sgd:
            self.finish_update(sgd)
        return losses

    @default_settings()
    def finish_update(self, sgd: Optimizer) -> None:
        """Let the biLM, if it is not frozen, learn from the listeners' gradients."""
        if not self.frozen:
            self._tuning.finish(sgd)

    def unfreeze(self, n_layers: int) -> None:
        """Have only the top n_layers of the biLM learn from now on, the token layer
        being the lowest of all L+1; all learn until this is called. Raises ValueError
        [EL026] if it is below 1."""
        self._tuning.complete()
        self._shim.unfreeze(n_layers)

    def use_params(self, params: Any) -> Iterator[None]:
        """Have the weights hold averages, or other values, for a while."""
        self._tuning.complete()  # with the weights that it was made for
        with self.model.use_params(params):
            yield

    def get_loss(self, examples: Any, scores: Any) -> None:
        """Return None: there is no loss."""

    def add_label(self, label: str) -> int:
        """Raise NotImplementedError [EL059]: there are no labels."""
        raise Errors.EL059(name=self.name)

    # -- files --------------------------------------------------------------------

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return the component as bytes, with its weights."""
        self._record_fingerprints()
        return super().to_bytes(exclude=exclude)

    def to_disk(self, path: Any, *, exclude: Iterable[str] = ()) -> None:
        """Write the component into a folder, with its weights."""
        self._record_fingerprints()
        super().to_disk(path, exclude=exclude)

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "Elmo":
        """Read what `to_bytes` has written. Raises ValueError [EL002] if it is damaged,
        and as `BiLMShim.from_bytes`."""
        self.cfg = self.cfg or {}  # or spaCy would not read it
        with parsing(Errors.EL002, SAVED, format=SAVED_AS):
            super().from_bytes(bytes_data, exclude=[*exclude, "model"])
            model = srsly.msgpack_loads(bytes_data).get("model")
        return self._load(None if "model" in exclude else model)

    def from_disk(self, path: Any, *, exclude: Iterable[str] = ()) -> "Elmo":
        """Read what `to_disk` has written, or a pipeline, which keeps the vocab in a
        place of its own. Raises as `from_bytes`."""
        if not (Path(path) / "vocab").exists():
            exclude = [*exclude, "vocab"]
        self.cfg = self.cfg or {}  # or spaCy would not read it
        with parsing(Errors.EL002, SAVED, format=SAVED_AS):
            super().from_disk(path, exclude=[*exclude, "model"])
        if "model" in exclude:
            return self._load(None)
        file, most = Path(path) / "model", self._shim.max_bytes
        with reading(file, Errors.EL002, max_bytes=most, format=SAVED_AS):
            model = file.read_bytes()
        return self._load(model)

    def _load(self, model: bytes | None) -> "Elmo":
        """Take over the model that was saved, and then the settings. If the sizes are
        others than before, connect the listeners again."""
        sizes = self._shim.bilm.config
        if model is not None:
            # Not by spaCy, which takes every AttributeError for a model of another
            # kind.
            self.model.from_bytes(model)
            self._tell_pipeline()
        self.cfg = self.cfg or None
        frozen = self.frozen if self.cfg is None else self.cfg.get("frozen")
        if isinstance(frozen, bool) and frozen != self.frozen:
            self.frozen = frozen
        if self._shim.bilm.config != sizes:
            self._check_mix()
            for listener in list(self.linked):
                if listener.upstream is self:
                    listener.connect(self)
        return self


def _holds(nlp: Language, *parts: Any) -> bool:
    """Return whether parts are components of a pipeline, or in models of them."""
    found = ((each, *nodes_of(each)) for _, each in nlp.components)
    return {*map(id, parts)} <= {id(each) for some in found for each in some}
