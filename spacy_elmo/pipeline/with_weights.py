"""Where a component's weights come from and go to."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import srsly
from thinc.api import use_ops

from .. import models as shipped
from ..bilm import BiLM, BiLMConfig
from ..errors import Errors, Warnings
from ..files import parsing, reading
from ..models import name_and_version
from .encoder import set_sizes, shim_of
from .fine_tuning import FineTuning
from .sealed_model import SAVED, SAVED_AS
from .settings import ElmoSettings
from .shim import BiLMShim


class WithWeights:
    """A part of a component whose model is a `spacy-elmo.BiLM.v1`."""

    settings: ElmoSettings
    named_weights: Path | None  # where settings.weights are
    name: str
    model: Any
    lang: str
    frozen: bool
    linked: list[Any]
    _tuning: FineTuning
    # Called with the name and the version of weights that are loaded, in a pipeline.
    when_loaded: Callable[[dict[str, Any]], None] | None = None
    # Called with whether the biLM is frozen, when that is changed.
    when_frozen: Callable[[bool], None] = staticmethod(lambda frozen: None)

    # Called with other sizes than those of the configuration, in a pipeline.
    when_resized: Callable[[BiLMConfig], None] = staticmethod(lambda sizes: None)

    @property
    def width(self) -> int:
        """D, the width of all vectors."""
        return self._shim.bilm_config.width

    @property
    def n_layers(self) -> int:
        """L+1, the token layer included."""
        return self._shim.bilm_config.n_layers + 1

    @property
    def bilm(self) -> BiLM:
        """The biLM with its weights; if there are none, ValueError [EL081] if that is
        because nothing ships for the language, else [EL050]."""
        self._tuning.complete()
        return self._with_weights().bilm

    @property
    def has_weights(self) -> bool:
        """Whether weights have been loaded, or were taken from this package."""
        return self._shim.has_weights

    @property
    def has_default_weights(self) -> bool:
        """Whether there are weights, named ones, or some of this package that fit."""
        fit = self._shim.bilm_config.to_dict() == shipped.sizes()
        return self.has_weights or self.named_weights is not None or fit

    def fingerprint(self) -> str:
        """Return the fingerprint of the weights; errors as of `bilm`."""
        self._tuning.complete()
        return self._with_weights().fingerprint()

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> Any:
        """Read what `to_bytes` has written. Raises ValueError [EL002] if it is damaged,
        and as `BiLMShim.from_bytes`."""
        with parsing(Errors.EL002, SAVED, format=SAVED_AS):
            super().from_bytes(bytes_data, exclude=[*exclude, "model"])  # type: ignore[misc]
            model = srsly.msgpack_loads(bytes_data).get("model")
        if model is not None and "model" not in exclude:
            self._read_model(model)
        return self

    def from_disk(self, path: Any, *, exclude: Iterable[str] = ()) -> Any:
        """Read what `to_disk` has written. Raises as `from_bytes`."""
        with parsing(Errors.EL002, SAVED, format=SAVED_AS):
            super().from_disk(path, exclude=[*exclude, "model"])  # type: ignore[misc]
        if "model" not in exclude:
            file, most = Path(path) / "model", self._shim.max_bytes
            with reading(file, Errors.EL002, max_bytes=most, format=SAVED_AS):
                model = file.read_bytes()
            self._read_model(model)
        return self

    def _read_model(self, data: bytes) -> None:
        # Not by spaCy, which takes every AttributeError for a model of another kind.
        with self._resizing():
            self.model.from_bytes(data)

    @contextmanager
    def _resizing(self) -> Iterator[None]:
        """Tell the configuration and the listeners if the model has got other sizes:
        saved weights keep theirs, whatever the folder that the configuration names
        holds now."""
        before = self._shim.bilm_config
        try:
            yield
        except BaseException:
            if self._shim.bilm_config != before:
                set_sizes(self.model, before)
            raise
        if self._shim.bilm_config != before:
            self.when_resized(self._shim.bilm_config)
            for listener in self.linked:
                if listener.upstream is self:
                    listener.connect(self)

    def load_weights(self, path: str | Path) -> None:
        """Take weights from a model folder in any format, or a shipped model by name.

        Raises:
            ValueError: [EL052] if its sizes are not those of the configuration, and as
                `BiLM.load`.
        """
        bilm = BiLM.load(shipped.find(path))
        if self.has_weights:
            self._sign_mixes()  # with the weights that they were trained with
        self._take(bilm, path)
        self._check_mixes()

    @property
    def _shim(self) -> BiLMShim:
        return shim_of(self.model)

    def _with_weights(self) -> BiLMShim:
        """Return the shim; if it has no weights, with those that are named, or those
        of this package if they fit."""
        if not self.has_weights:
            if not self.has_default_weights:
                raise ValueError(Errors.EL050.format(name=self.name))
            self._take_named_or_shipped()
            self._check_mixes()
        return self._shim

    def _take_named_or_shipped(self) -> None:
        if self.named_weights is None:
            folder = shipped.folder(self.lang)
            self._take(BiLM.load(folder), folder)
        else:
            path = shipped.find(self.named_weights)
            self._take(BiLM.load(path), path)

    def _take(self, bilm: BiLM, path: str | Path) -> None:
        version = name_and_version(path)  # which can fail, before anything is taken
        # Thinc's ops, which say on what device, are the CPU's in another thread.
        with use_ops(self.model.ops.name):
            self._shim.set_weights(bilm, path)
        if self.when_loaded is not None:
            self.when_loaded(version)

    def _initialize_weights(self, weights: Callable[[], BiLM] | None) -> None:
        """Take weights from a reader, or those of this package; if there are none and
        the biLM is to be trained, random ones."""
        config = self._shim.bilm_config
        if weights is not None:
            path = getattr(weights, "path", "[initialize]")
            if path is None:
                self._take_named_or_shipped()
            else:
                self._take(weights(), path)
        elif not (self.frozen or self.has_default_weights):
            if config.n_words:  # rows of unknown words mean nothing
                raise ValueError(Errors.EL050.format(name=self.name))
            warnings.warn(Warnings.ELW03.format(name=self.name), stacklevel=3)
            self._take(BiLM.random(config), "random")

    def _check_mixes(self) -> None:
        for listener in self.linked:
            listener.check_weights(self)

    def _sign_mixes(self) -> None:
        """Tell listeners, which are saved after this component, what their mixes were
        trained with, unless they know."""
        self.fingerprint()  # takes the weights that are saved, if there are none
        for listener in self.linked:
            listener.sign(self)
