"""Thinc's PyTorchShim for a biLM, with its faults mended and safetensors inside.

Differences from the stock shim (thinc 8.3), each held by a test:
- parameter averages reach the weights: `use_params` looks for the keys that the
  optimizer writes;
- a copy gets an id of its own, so it shares no optimizer state with the original;
- optimizer keys can't collide with those of Thinc's own parameters;
- updates are written into the parameters in place: a parameter stays the same tensor;
- prediction leaves the module in evaluation mode; mixed precision, which fails on the
  CPU, is not offered.
"""

import contextlib
import copy
import re
from collections.abc import Iterator
from typing import Any, cast

import srsly
import torch
from safetensors import SafetensorError
from safetensors.torch import load as deserialize
from safetensors.torch import save as serialize
from thinc.api import (
    ArgsKwargs,
    Optimizer,
    get_torch_default_device,
    torch2xp,
    xp2torch,
)
from thinc.shims import PyTorchShim
from thinc.shims.shim import Shim
from thinc.types import FloatsXd

from ..bilm import vocab_cache
from ..bilm.bilm import CACHE_WORDS, BiLM
from ..bilm.changes import pinned, state_of
from ..bilm.config import BiLMConfig
from ..bilm.products import Precision, check_name
from ..bilm.token_cache import TokenCache
from ..bilm.weights import check_shapes, empty_bilm, fill, fingerprint
from ..errors import Errors


class BiLMShim(PyTorchShim):
    """Holds a biLM, at first without weights and without memory.

    config: the sizes that weights must have. cache_words: words whose token vectors are
        kept. precision: of prediction.
    """

    def __init__(
        self,
        config: BiLMConfig,
        cache_words: int = CACHE_WORDS,
        precision: Precision = "float32",
    ) -> None:
        super().__init__(None)
        check_name(precision)
        self.bilm_config = config
        self.cache_words = cache_words
        self.precision = precision
        self._model = empty_bilm(config)
        self._fingerprint: tuple[object, object, str] | None = None
        self.exact = False
        # Layers that learn, from the top down, the token layer being the last.
        self.thawed = config.n_layers + 1

    @property
    def bilm(self) -> BiLM:
        return self._model

    @property
    def has_weights(self) -> bool:
        return self._model.device.type != "meta"

    def set_weights(self, bilm: BiLM, source: object) -> None:
        """Take over a biLM. Raises ValueError [EL052] if its sizes are others, [EL077]
        if the device does not have the precision."""
        check_sizes(self.bilm_config, bilm.config, source)
        known = bilm.token_cache.fixed(bilm.token_encoder)
        bilm = bilm.to(get_torch_default_device()).eval()
        bilm.set_precision(self.precision).set_exact(self.exact)
        bilm.token_cache = TokenCache(self.cache_words)
        self._model = bilm
        self._fix(known)

    def __getstate__(self) -> dict[str, Any]:
        # Of this process's tensors.
        return {**self.__dict__, "_fingerprint": None}

    def set_exact(self, exact: bool) -> None:
        """As `BiLM.set_exact`, of these weights and of those to come."""
        self.exact = exact
        if self.has_weights:
            self._model.set_exact(exact)

    def fingerprint(self) -> str:
        """Of the weights, see `weights.fingerprint`; computed anew when they change."""
        state = state_of(self._model.parameters())
        if self._fingerprint is None or self._fingerprint[0] != state:
            kept = pinned(self._model.parameters())
            self._fingerprint = state, kept, fingerprint(self._model)
        return self._fingerprint[2]

    def _fix(self, known: tuple[list[str], torch.Tensor] | None) -> None:
        """Put token vectors of a vocabulary back after the weights have moved."""
        if known is not None:
            words, vectors_FH = known
            vectors_FH = vectors_FH.to(self._model.device)
            self._model.token_cache.fix(words, vectors_FH, self._model.token_encoder)

    def predict(self, inputs: ArgsKwargs) -> Any:
        self._model.eval()
        with torch.inference_mode(False), torch.no_grad():
            return self._model(*inputs.args, **inputs.kwargs)

    def finish_update(self, optimizer: Optimizer) -> None:
        for name, parameter in self._model.named_parameters():
            if parameter.grad is None:
                continue
            if _layer_of(name) <= self.bilm_config.n_layers - self.thawed:
                parameter.grad = None
                continue
            weights, _ = optimizer(
                self._key(name),
                cast(FloatsXd, torch2xp(parameter.data)),
                cast(FloatsXd, torch2xp(parameter.grad)),
            )
            _write(parameter, xp2torch(weights, device=parameter.device))
            parameter.grad = None

    def _key(self, name: str) -> tuple[int, str]:
        # Models and shims number themselves apart, so a bare name such as "W" could
        # stand for a parameter of a Thinc model too.
        return self.id, f"bilm.{name}"

    @contextlib.contextmanager
    def use_params(self, params: Any) -> Iterator[None]:
        backup = {}
        for name, parameter in self._model.named_parameters():
            if self._key(name) in params:
                backup[name] = parameter.data.clone()
                average = xp2torch(params[self._key(name)], device=parameter.device)
                _write(parameter, average)
        try:
            yield
        finally:
            for name, parameter in self._model.named_parameters():
                if name in backup:
                    _write(parameter, backup[name])

    def copy(self) -> "BiLMShim":
        copied = copy.deepcopy(self)
        with Shim.global_id_lock:
            Shim.global_id += 1
            copied.id = Shim.global_id
        return copied

    def to_device(self, device_type: str, device_id: int) -> None:
        if self.has_weights:
            known = self._model.token_cache.fixed(self._model.token_encoder)
            super().to_device(device_type, device_id)
            self._fix(known)

    def to_bytes(self) -> bytes:
        arrays = {
            name: array.detach().cpu().contiguous()
            for name, array in self._model.state_dict().items()
            if self.has_weights
        }
        return srsly.msgpack_dumps(
            {
                "config": self.bilm_config.to_dict(),
                "vocab": self._model.vocab if self.bilm_config.n_words else None,
                "alphabet": self._model.alphabet,
                "weights": serialize(arrays),
                "vocab_cache": self._vocab_cache(),
            }
        )

    def _vocab_cache(self) -> bytes | None:
        known = self._model.token_cache.fixed(self._model.token_encoder)
        if known is None:
            return None
        words, vectors_FH = known
        return vocab_cache.pack(words, vectors_FH, fingerprint(self._model))

    def from_bytes(self, bytes_data: bytes) -> "BiLMShim":
        """Raises ValueError [EL006-EL008, EL010, EL052, EL078, EL079]."""
        message = srsly.msgpack_loads(bytes_data)
        config = BiLMConfig.from_dict(message["config"])
        check_sizes(self.bilm_config, config, "saved pipeline")
        try:
            arrays = deserialize(message["weights"])
        except SafetensorError as error:
            raise ValueError(
                Errors.EL010.format(path="saved pipeline", error=error)
            ) from error
        bilm = empty_bilm(config, message["vocab"], message["alphabet"])
        if arrays:  # a component that was saved before it had weights has none
            shapes = {name: tuple(array.shape) for name, array in arrays.items()}
            check_shapes("saved pipeline", shapes, bilm)
            bilm = fill(bilm, arrays, "saved pipeline")
            if message.get("vocab_cache"):
                vocab_cache.attach(bilm, message["vocab_cache"], "saved pipeline")
            self.set_weights(bilm, "saved pipeline")
        return self


def _layer_of(name: str) -> int:
    """Number of the layer that a parameter of a biLM belongs to, 0 the token layer."""
    match = re.match(r"(?:forward|backward)_lstm\.layers\.(\d+)\.", name)
    return int(match[1]) + 1 if match else 0


@torch.no_grad()
def _write(parameter: torch.Tensor, values: torch.Tensor) -> None:
    """Not into parameter.data: what is written there goes unnoticed, and vectors that
    were computed before would still be taken for those of these weights."""
    parameter.copy_(values)


def check_sizes(expected: BiLMConfig, found: BiLMConfig, source: object) -> None:
    """Raises ValueError [EL052], naming each size that differs."""
    ours, theirs = expected.to_dict(), found.to_dict()
    differing = [
        f"{name} = {theirs[name]} (configured: {ours[name]})"
        for name in ours
        if ours[name] != theirs[name]
    ]
    if differing:
        raise ValueError(Errors.EL052.format(source=source, sizes="; ".join(differing)))
