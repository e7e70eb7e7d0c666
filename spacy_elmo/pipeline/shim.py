"""The biLM inside Thinc's PyTorchShim, whose faults are mended.

Differences from the stock shim (thinc 8.3):
- parameter averages reach the weights: `use_params` looks for the keys that the
  optimizer writes;
- a copy gets an id of its own, so it shares no optimizer state with the original;
- optimizer keys can't collide with those of Thinc's own parameters;
- updates are written into the parameters in place: a parameter stays the same tensor,
  and what was computed with its values before is known to be old;
- prediction leaves the module in evaluation mode; mixed precision, which fails on the
  CPU, is not offered;
- weights are saved as safetensors, so no pickle is read.
"""

import contextlib
import copy
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import srsly
import torch
from safetensors.torch import load as deserialize
from safetensors.torch import save as serialize
from thinc.api import (
    Config,
    Optimizer,
    get_torch_default_device,
    torch2xp,
    xp2torch,
)
from thinc.shims import PyTorchShim
from thinc.shims.shim import Shim
from thinc.types import FloatsXd
from torch import Tensor

from ..bilm import BiLM, BiLMConfig, PackedBatch, TokenCache, check_at_least
from ..bilm.kernels import Prepared, key_of
from ..bilm.weights import StoredBiLM, checked
from ..errors import Errors, Warnings
from ..files import MAX_WORDS, parsing
from ..machine import (
    Precision,
    batch_limits,
    check_name,
    default_settings,
    float32_mode,
    prepare_for_forks,
    safe_from_forks,
    to_device,
)

SAVED, SAVED_AS = "saved pipeline", "an elmo component"  # in messages
LARGEST = 93_600_848  # parameters of the largest published biLM


class BiLMShim(PyTorchShim):
    """Holds a biLM, which at first has no weights and takes no memory. The arguments
    are those of `spacy-elmo.BiLM.v1`, with the sizes as one configuration."""

    @default_settings()
    def __init__(
        self,
        config: BiLMConfig,
        cache_words: int,
        precision: Precision,
        batch_tokens: int | None,
    ) -> None:
        super().__init__(None)
        check_name(precision)
        check_at_least(0, cache_words=cache_words)
        check_at_least(1, batch_tokens=1 if batch_tokens is None else batch_tokens)
        self._batch_tokens = batch_tokens
        self.cache_words = cache_words
        self.precision = precision
        # Whether the configuration names sizes. If not, the first weights bring theirs.
        self.sizes_chosen = True
        # Name and version of the weights (`models.name_and_version`), if known.
        self.origin: dict[str, Any] | None = None
        # The biLM learns at the rate of the optimizer times this factor.
        self.learn_rate_factor = 1.0
        self._fingerprint = Prepared[str]()
        self.set_sizes(config)

    def set_sizes(self, config: BiLMConfig) -> None:
        """Have no weights, and ask for weights of these sizes."""
        self._model, self._taken = BiLM.empty(config), object()
        # Layers that learn, from the top down, the token layer being the last.
        self.unfrozen = config.n_layers + 1

    @property
    def bilm(self) -> BiLM:
        """The biLM, perhaps without weights."""
        return self._model

    @property
    def has_weights(self) -> bool:
        """Whether the biLM has weights."""
        return self._model.device.type != "meta"

    @property
    def sizes_are_fixed(self) -> bool:
        """Whether weights must have the sizes of the biLM."""
        return self.sizes_chosen or self.has_weights

    @default_settings()
    def set_weights(
        self, bilm: BiLM, source: object, origin: dict[str, Any] | None = None
    ) -> None:
        """Take over a biLM.

        Args:
            bilm: The biLM.
            source: Where it is from, in messages.
            origin: Its name and version, if they are known.

        Raises:
            ValueError: [EL052] Its sizes are others. [EL077] The device does not have
                the precision.
            MemoryError: [EL076] It does not fit the device.
        """
        self.check_sizes(bilm.config, source)
        try:
            bilm = bilm.to(_device()).eval()
        except torch.OutOfMemoryError as error:
            raise Errors.EL076() from error
        bilm.set_precision(self.precision)
        bilm.token_cache = TokenCache(self.cache_words)
        self._model, self._taken, self.origin = bilm, object(), origin
        self._fingerprint.clear()

    @property
    def batch_tokens(self) -> int:
        """Tokens computed at once at most."""
        return self._batch_tokens or batch_limits(self._model.device).tokens

    @property
    def max_bytes(self) -> int:
        """Size of the saved weights and words at most."""
        n_parameters = self._model.n_parameters
        if not self.sizes_are_fixed:
            n_parameters = max(n_parameters, LARGEST)
        return 8 * n_parameters + MAX_WORDS

    def fingerprint(self) -> str:
        """Return `BiLM.fingerprint`, computed again when the weights change."""
        bilm = self._model
        return self._fingerprint([bilm], bilm.fingerprint)

    def state(self) -> tuple[object, ...]:
        """Return a key that changes when any weight is replaced or written to (writes
        through `.data` are not seen). It is valid as long as the weights are kept
        alive."""
        return self._taken, *map(key_of, self._model.parameters())

    def compute(
        self, batch: PackedBatch, dropout: float | None = None
    ) -> tuple[Tensor, Callable[[Tensor], None]]:
        """Return the layers of a batch, (L+1, N, D), and the backward pass down to the
        lowest layer that learns. dropout: of an update; None to predict, in evaluation
        mode and without a backward pass."""
        bilm = self._model.train(dropout is not None)
        if dropout is None:
            return bilm(batch)[0], _no_backprop
        for name, parameter in bilm.named_parameters():
            parameter.requires_grad_(self.learns(name))
        with self._training(gradient=True):
            Y_LND, _ = bilm(batch, dropout=dropout)

        def backprop(dY_LND: Tensor) -> None:
            with self._training():
                Y_LND.backward(dY_LND)

        return Y_LND, backprop

    @contextlib.contextmanager
    def _training(self, *, gradient: bool = False) -> Iterator[None]:
        """Compute without TF32 while the body runs."""
        mode = float32_mode("float32", self._model.device.type)
        with default_settings(gradient=gradient), mode, safe_from_forks():
            yield

    @default_settings()
    def finish_update(self, optimizer: Optimizer) -> None:
        """Write the optimizer's updates into the layers that learn, at its rate times
        `learn_rate_factor`, and drop gradients."""
        if self.learn_rate_factor != 1:
            # A copy shares the moments. The optimizer's lr_scale does nothing in RAdam.
            rate = optimizer.learn_rate * self.learn_rate_factor
            optimizer = copy.copy(optimizer)
            optimizer.learn_rate = rate
        for name, parameter in self._model.named_parameters():
            if parameter.grad is not None and self.learns(name):
                weights, _ = optimizer(
                    self.key(name),
                    cast(FloatsXd, torch2xp(parameter.data)),
                    cast(FloatsXd, torch2xp(parameter.grad)),
                )
                _write(parameter, weights)
            parameter.grad = None

    def key(self, name: str) -> tuple[int, str]:
        """Return the key of a parameter in the optimizer's state.

        Models and shims number themselves apart, so a bare name such as "W" could stand
        for a parameter of a Thinc model too.
        """
        return self.id, f"torch.{name}"

    @contextlib.contextmanager
    def use_params(self, params: Any) -> Iterator[None]:
        """Have the parameters hold averages, or other values, for a while."""
        prepare_for_forks()
        backup = []
        with default_settings():
            for name, parameter in self._model.named_parameters():
                if self.key(name) in params:
                    backup.append((parameter, torch2xp(parameter.data.clone())))
                    _write(parameter, params[self.key(name)])
        try:
            yield
        finally:
            with default_settings():
                for parameter, weights in backup:
                    _write(parameter, weights)

    @default_settings()
    def copy(self) -> "BiLMShim":
        """Return a copy with an id of its own."""
        copied = copy.deepcopy(self)
        with Shim.global_id_lock:
            Shim.global_id += 1
            copied.id = Shim.global_id
        return copied

    def learns(self, name: str) -> bool:
        """Return whether the parameter of a name is of a layer that learns."""
        match = re.match(r"(?:forward|backward)_lstm\.layers\.(\d+)\.", name)
        layer = int(match[1]) + 1 if match else 0  # the token layer
        return layer > self._model.config.n_layers - self.unfrozen

    def unfreeze(self, n_layers: int) -> None:
        """Have the top n_layers learn, the token layer being the last one."""
        check_at_least(1, n_layers=n_layers)
        self.unfrozen = min(n_layers, self._model.config.n_layers + 1)

    def to_device(self, device_type: str, device_id: int) -> None:
        """Move the weights to a device."""
        if self.has_weights:
            super().to_device(device_type, device_id)

    def to_bytes(self) -> bytes:
        """Return the weights, in the format of safetensors, and what belongs to them,
        as msgpack."""
        state = self._model.state_dict() if self.has_weights else {}
        arrays = {
            name: each.detach().cpu().contiguous() for name, each in state.items()
        }
        return srsly.msgpack_dumps(
            {
                "config": self._model.config.to_dict(),
                "vocab": self._model.vocab if self._model.config.n_words else None,
                "alphabet": self._model.alphabet,
                "unicode_form": self._model.form,
                "origin": self.origin,
                "weights": serialize(arrays) if arrays else None,
                "fingerprint": self.fingerprint() if arrays else None,
            }
        )

    @default_settings()
    def from_bytes(self, bytes_data: bytes) -> "BiLMShim":
        """Load weights, if there are some, and their sizes if none are fixed. Nothing
        is changed before they are checked.

        Raises:
            ValueError: [EL002, EL006-EL008] They are damaged. [EL052] Other sizes are
                fixed.
        """
        with parsing(Errors.EL002, SAVED, format=SAVED_AS):
            message = srsly.msgpack_loads(bytes_data)
            sizes, weights = dict(message["config"]), message["weights"]
            words = message["vocab"], message["alphabet"]
            if not all(each is None or type(each) is list for each in words):
                raise ValueError("its words are no list")
            # Not in version 0.2:
            form, origin = message.get("unicode_form"), message.get("origin")
            if not (origin is None or type(origin) is dict):
                raise ValueError("its origin is no dictionary")
            fingerprint = message.get("fingerprint")
        config, stored = BiLMConfig.from_dict(sizes), None
        if weights:  # none if saved before it had any
            with parsing(Errors.EL002, SAVED, format=SAVED_AS):
                arrays = deserialize(weights)
            stored = checked(StoredBiLM(config, *words, arrays, None, form), SAVED)
            if fingerprint != stored.fingerprint:
                problem = "its weights were changed after they were saved"
                raise Errors.EL002(path=SAVED, format=SAVED_AS, error=problem)
        if self.sizes_are_fixed:
            self.check_sizes(config, SAVED)
        elif config != self._model.config:
            self.set_sizes(config)
        if stored is not None:
            self.set_weights(BiLM.from_stored(stored), SAVED, origin)
        return self

    def check_sizes(self, found: BiLMConfig, source: object) -> None:
        """Raise ValueError [EL052] if the sizes of weights from a source are others."""
        ours, theirs = self._model.config.to_dict(), found.to_dict()
        differing = [
            f"{name} = {theirs[name]} (configured: {ours[name]})"
            for name in ours
            if ours[name] != theirs[name]
        ]
        if differing:
            model = {"@architectures": "spacy-elmo.BiLM.v1", **theirs}
            block = Config({"components": {"elmo": {"model": model}}}).to_str()
            block = block[block.index("[components.elmo.model]") :].strip()
            values = {"sizes": "; ".join(differing), "block": block}
            raise Errors.EL052(source=source, **values)


def _device() -> torch.device:
    """Return the device of spaCy's other components, or the CPU [ELW53] where that is
    neither a CPU nor one of CUDA: Apple's GPU ("mps")."""
    device = get_torch_default_device()
    if device.type in ("cpu", "cuda"):
        return device
    warnings.warn(Warnings.ELW53(device=device.type), stacklevel=4)
    return torch.device("cpu")


def _no_backprop(dY_LND: Tensor) -> None:
    """Do nothing."""


def to_array(numbers: np.ndarray, device: torch.device) -> Any:
    """Return an array of the host as an array of the device: NumPy's or, on a GPU,
    CuPy's. Do not wait for the copy."""
    return torch2xp(to_device(numbers, device))


def _write(parameter: Tensor, values: Any) -> None:
    """Write an array into a parameter.

    Not into parameter.data: what is written there goes unnoticed, and vectors that were
    computed before would still be taken for those of these weights.
    """
    parameter.copy_(xp2torch(values, device=parameter.device))
