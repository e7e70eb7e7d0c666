"""The biLM inside Thinc: its weights, and what has to follow them when they change."""

import re

import srsly
import torch
from thinc.api import get_torch_default_device

from ..bilm.bilm import BiLM
from ..bilm.config import BiLMConfig
from ..bilm.files import StoredBiLM, checked
from ..bilm.kernels.memo import Derived
from ..bilm.kernels.processor import Precision, check_name
from ..bilm.token_cache import CACHE_WORDS, TokenCache
from ..errors import Errors
from .torch_shim import SAVED, TorchShim, arrays_from_bytes


class BiLMShim(TorchShim):
    """Holds a biLM, at first without weights and without memory.

    Args:
        config: The sizes that weights must have.
        cache_words: Words whose token vectors are kept at most.
        precision: Of prediction.
        batch_tokens: Tokens that are computed at once at most.

    Raises:
        ValueError: [EL026] for batch_tokens, [EL073] for an unknown precision.
    """

    def __init__(
        self,
        config: BiLMConfig,
        cache_words: int = CACHE_WORDS,
        precision: Precision = "float32",
        batch_tokens: int = 4096,
    ) -> None:
        super().__init__(None)
        check_name(precision)
        if batch_tokens < 1:
            raise ValueError(Errors.EL026.format(found=batch_tokens))
        self.bilm_config = config
        self.batch_tokens = batch_tokens
        self.cache_words = cache_words
        self.precision = precision
        self._model = BiLM.empty(config)
        self._fingerprint = Derived(_fingerprint)
        self.exact = False
        # Layers that learn, from the top down, the token layer being the last.
        self.thawed = config.n_layers + 1

    @property
    def bilm(self) -> BiLM:
        """The biLM, perhaps without weights."""
        return self._model

    @property
    def has_weights(self) -> bool:
        """Whether the biLM has weights."""
        return self._model.device.type != "meta"

    def set_weights(self, bilm: BiLM, source: object) -> None:
        """Take over a biLM from a source, which messages name; [EL052] if its sizes are
        others, [EL077] if the device does not have the precision."""
        self._check_sizes(bilm.config, source)
        bilm = bilm.to(get_torch_default_device()).eval()
        bilm.set_precision(self.precision).set_exact(self.exact)
        bilm.token_cache = TokenCache(self.cache_words)
        self._model = bilm
        self._fingerprint.clear()

    def set_exact(self, exact: bool) -> None:
        """Set `BiLM.set_exact` of these weights and of those to come."""
        self.exact = exact
        if self.has_weights:
            self._model.set_exact(exact)

    def fingerprint(self) -> str:
        """Return `BiLM.fingerprint`, computed again when the weights change."""
        return self._fingerprint(*self._model.parameters(), bilm=self._model)

    def learns(self, name: str) -> bool:
        """Return whether the parameter of a name is of a layer that learns."""
        match = re.match(r"(?:forward|backward)_lstm\.layers\.(\d+)\.", name)
        layer = int(match[1]) + 1 if match else 0  # the token layer
        return layer > self.bilm_config.n_layers - self.thawed

    def to_device(self, device_type: str, device_id: int) -> None:
        """Move the weights to a device."""
        if self.has_weights:
            super().to_device(device_type, device_id)

    def to_bytes(self) -> bytes:
        """Return the weights, and what belongs to them, as msgpack."""
        return srsly.msgpack_dumps(
            {
                "config": self.bilm_config.to_dict(),
                "vocab": self._model.vocab if self.bilm_config.n_words else None,
                "alphabet": self._model.alphabet,
                "weights": super().to_bytes() if self.has_weights else None,
            }
        )

    def from_bytes(self, bytes_data: bytes) -> "BiLMShim":
        """Load weights, if there are some; [EL006-EL008, EL010] if they are damaged,
        [EL052] if their sizes are others."""
        message = srsly.msgpack_loads(bytes_data)
        config = BiLMConfig.from_dict(message["config"])
        self._check_sizes(config, SAVED)
        if message["weights"]:  # none if saved before it had any
            arrays = arrays_from_bytes(message["weights"])
            stored = StoredBiLM(config, message["vocab"], message["alphabet"], arrays)
            self.set_weights(BiLM.from_stored(checked(stored, SAVED)), SAVED)
        return self

    def _check_sizes(self, found: BiLMConfig, source: object) -> None:
        ours, theirs = self.bilm_config.to_dict(), found.to_dict()
        differing = [
            f"{name} = {theirs[name]} (configured: {ours[name]})"
            for name in ours
            if ours[name] != theirs[name]
        ]
        if differing:
            sizes = "; ".join(differing)
            raise ValueError(Errors.EL052.format(source=source, sizes=sizes))


def _fingerprint(*weights: torch.Tensor, bilm: BiLM) -> str:
    return bilm.fingerprint()
