"""The biLM that users hold: it reads words, and loads and saves itself.

The model is in model.py, what computes it in kernels/.

Shapes: B sentences, T tokens, V distinct words, N packed positions, L LSTM layers,
H projection, D = 2H.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..errors import Errors
from . import files
from .batch import PackedBatch, batch_by_tokens, pack
from .config import BiLMConfig
from .files import StoredBiLM
from .halves import in_halves
from .initial_weights import draw_weights
from .kernels.fast import FastBidirectionalLM
from .kernels.processor import Precision
from .kernels.threads import safe_after_fork
from .lstm import BiLMState
from .objectives import Objective
from .token_cache import TokenCache
from .words import PADDING, UNK, encode_words, encode_words_in, trim

Start = Literal["zeros", "boundary"]

# The state that <S> </S> repeated converges to is taken as reached when a pass moves
# it by less than this; it converges geometrically, in about ten passes.
BOUNDARY_TOLERANCE = 1e-7
BOUNDARY_PASSES = 100

# Words whose token vectors are kept: 25 MB at the small published size.
CACHE_WORDS = 50_000


class BiLM(FastBidirectionalLM):
    """A bidirectional language model over characters, in pure PyTorch.

    config: all sizes.
    vocab: the words of its softmax, or of its word-embedding input; None if not known.
    alphabet: its characters and marks, if it does not read bytes.
    """

    def __init__(
        self,
        config: BiLMConfig,
        vocab: Sequence[str] | None = None,
        alphabet: Sequence[str] | None = None,
    ) -> None:
        super().__init__(config)
        self.vocab = list(vocab) if vocab is not None else None
        self.alphabet = list(alphabet) if alphabet is not None else None
        self.token_cache = TokenCache(CACHE_WORDS)

    @classmethod
    def random(
        cls, config: BiLMConfig, *, seed: int = 0, vocab: Sequence[str] | None = None
    ) -> "BiLM":
        """A biLM with random weights, as training starts from."""
        bilm = cls(config, vocab)
        generator = torch.Generator().manual_seed(seed)
        draw_weights(bilm, generator)
        return bilm.eval()

    @property
    def precision(self) -> Precision:
        return self.settings.precision

    @property
    def exact(self) -> bool:
        return self.settings.exact

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def n_parameters(self) -> int:
        return sum(p.numel() for p in self.parameters())

    def set_precision(self, precision: Precision) -> "BiLM":
        """Compute without gradients in float32, or in "half" or "int8", which are
        faster and less exact (see kernels/processor.py). The weights stay as they are.

        RETURNS: itself.
        Raises ValueError [EL073, EL077].
        """
        self.set_settings(self.settings._replace(precision=precision))
        self.token_cache.clear()
        return self

    def set_exact(self, exact: bool) -> "BiLM":
        """Give a sentence the same vectors to the last bit in any batch, on a CPU and
        without gradients, if all sizes are multiples of 16 (processors round what is
        left over otherwise). Else they differ by rounding, and a single sentence takes
        three quarters of the time (8.3 ms for 11.2, 20 tokens at the small published
        size on one core of an AMD EPYC).

        RETURNS: itself."""
        self.set_settings(self.settings._replace(exact=exact))
        self.token_cache.clear()
        return self

    # -- tokens in ----------------------------------------------------------------

    def token_vectors(self, words: Sequence[str]) -> Tensor:
        """Context-independent vectors of distinct words, (V, H); from the cache those
        that it has, where no gradient is asked for."""
        if torch.is_grad_enabled() or not self.token_cache.is_used:
            return self.compute_token_vectors(words)
        # What is kept is not to depend on what this call is made under.
        with torch.autocast(self.device.type, enabled=False):
            return self.token_cache.vectors(
                words, self.token_encoder, self.compute_token_vectors
            )

    def compute_token_vectors(self, words: Sequence[str]) -> Tensor:
        """The same without the cache."""
        inputs = []
        if self.config.has_characters:
            inputs.append(self.trim(self.character_ids(words)))
        if self.config.n_words:
            inputs.append(self._word_ids(words))
        return self.token_encoder(
            *(torch.from_numpy(i).to(self.device) for i in inputs)
        )

    def character_ids(self, words: Sequence[str]) -> np.ndarray:
        """(V, C)."""
        size = self.config.max_characters
        if self.alphabet is None:
            return encode_words(words, size)
        return encode_words_in(self._alphabet_index, words, size)

    def trim(self, ids_VC: np.ndarray) -> np.ndarray:
        """Character ids without the padding that changes nothing."""
        padding = PADDING if self.alphabet is None else self._alphabet_index["<pad>"]
        widest = max(width for width, _ in self.config.filters)
        return np.ascontiguousarray(trim(ids_VC, widest, padding))

    def _word_ids(self, words: Sequence[str]) -> np.ndarray:
        """(V,), <UNK> for a word that the table does not have."""
        index = self._vocab_index
        return np.array([index.get(word, index.get(UNK, 0)) for word in words])

    @cached_property
    def _alphabet_index(self) -> dict[str, int]:
        return {
            character: i for i, character in enumerate(self.alphabet or [], start=1)
        }

    @cached_property
    def _vocab_index(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.vocab or [])}

    # -- layers out ---------------------------------------------------------------

    def forward(  # type: ignore[override]  # words in place of their ids
        self, batch: PackedBatch, state: BiLMState | None = None
    ) -> tuple[Tensor, BiLMState]:
        """Layers of a packed batch.

        state: forward and backward state to go on from, rows in packed order (zeros
            if None).
        RETURNS: layers (L+1, N, D), and the states after the last step.
        """
        if state is None:
            state = self.zero_state(len(batch.positions))
        with safe_after_fork():
            word_N = torch.from_numpy(batch.word_N).to(self.device)
            reversed_N = torch.from_numpy(batch.reversed_N).to(self.device)
            x_VH = self.token_vectors(batch.words)
            ahead, back, state = self.read(
                x_VH, word_N, word_N[reversed_N], batch.batch_sizes, state
            )
            return self.join(x_VH[word_N], ahead, back, reversed_N), state

    def zero_state(self, batch_size: int) -> BiLMState:
        return BiLMState.zeros(self.config, batch_size, next(self.parameters()))

    @torch.no_grad()
    def boundary_state(self, batch_size: int) -> BiLMState:
        """The state that empty sentences, <S> </S> repeated, converge to."""
        batch, state = pack([[]]), self.zero_state(1)
        for _ in range(BOUNDARY_PASSES):
            before, (_, state) = state, self(batch, state)
            moved = max(
                float((new - old).abs().max())
                for direction, old_direction in zip(state, before)
                for new, old in zip(direction, old_direction)
            )
            if moved < BOUNDARY_TOLERANCE:
                break
        return state.map(lambda part: part.repeat(1, batch_size, 1))

    def start_state(self, start: Start, batch_size: int) -> BiLMState:
        """Raises ValueError [EL021] for an unknown start."""
        if start == "zeros":
            return self.zero_state(batch_size)
        if start == "boundary":
            return self.boundary_state(batch_size)
        raise ValueError(Errors.EL021.format(start=start))

    # -- sentences to arrays ------------------------------------------------------

    @torch.inference_mode(False)
    @torch.no_grad()
    def encode(
        self,
        sentences: Sequence[Sequence[str]],
        *,
        batch_tokens: int = 4096,
        start: Start = "zeros",
    ) -> list[np.ndarray]:
        """Layers of sentences.

        sentences: each a list of tokens. A sentence's vectors depend on nothing but it.
        batch_tokens: upper bound of the tokens computed at once, which bounds memory; a
            longer sentence is computed alone.
        start: state each sentence starts from: "zeros", or "boundary", which empty
            sentences converge to and which is nearer to running text.
        RETURNS: for each sentence, in order, float32 (L+1, T, D), boundaries removed.
        Raises ValueError [EL021, EL025, EL026], MemoryError [EL080].
        """
        _check_sentences(sentences)
        if batch_tokens < 1:
            raise ValueError(Errors.EL026.format(found=batch_tokens))
        self.start_state(start, 1)  # an unknown start is refused also for no sentences
        encoded: list[np.ndarray] = [np.empty(0)] * len(sentences)

        def encode_group(group: Sequence[int]) -> list[np.ndarray]:
            state = self.start_state(start, len(group))
            return self._encode_batch([sentences[b] for b in group], state)[0]

        for whole in batch_by_tokens(sentences, batch_tokens):
            for group, arrays in in_halves(sentences, whole, encode_group):
                for b, array in zip(group, arrays):
                    encoded[b] = array
        return encoded

    @torch.inference_mode(False)
    @torch.no_grad()
    def encode_stateful(
        self,
        sentences: Sequence[Sequence[str]],
        state: BiLMState | None = None,
    ) -> tuple[list[np.ndarray], BiLMState]:
        """Layers of one batch whose row b goes on from row b of a carried state, as the
        published implementations do from call to call.

        state: what the call before returned; None for zeros.
        RETURNS: as `encode`, and the state to hand to the next call.
        Raises ValueError [EL024, EL025].
        """
        _check_sentences(sentences)
        if state is None:
            state = self.zero_state(len(sentences))
        rows = state[0].h.shape[1]
        if rows != len(sentences):
            raise ValueError(Errors.EL024.format(found=rows, expected=len(sentences)))
        return self._encode_batch(sentences, state)

    def _encode_batch(
        self, sentences: Sequence[Sequence[str]], state: BiLMState
    ) -> tuple[list[np.ndarray], BiLMState]:
        if not sentences:
            return [], state
        batch = pack(sentences)
        order_B = torch.from_numpy(batch.order_B).to(self.device)
        layers_LND, packed_state = self(batch, state.select(order_B))
        layers = layers_LND.float().cpu().numpy()
        arrays = [
            np.ascontiguousarray(layers[:, positions]) for positions in batch.positions
        ]
        return arrays, packed_state.select(torch.argsort(order_B))

    # -- files --------------------------------------------------------------------

    @classmethod
    def empty(cls, config: BiLMConfig) -> "BiLM":
        """Return a biLM whose parameters have shapes but no memory."""
        with torch.device("meta"):
            return cls(config)

    @classmethod
    def from_stored(cls, stored: StoredBiLM) -> "BiLM":
        """Return the biLM that `files.load` has read."""
        with torch.device("meta"):
            bilm = cls(stored.config, stored.vocab, stored.alphabet)
        bilm.load_state_dict(stored.arrays, strict=True, assign=True)
        return bilm.requires_grad_(True).eval()

    def stored(self) -> StoredBiLM:
        """Return what files of this biLM hold; its arrays are those of this biLM."""
        return StoredBiLM(self.config, self.vocab, self.alphabet, self.state_dict())

    def fingerprint(self) -> str:
        """Return the SHA-256 of everything that the vectors depend on."""
        return self.stored().fingerprint

    @classmethod
    def load(cls, path: str | Path) -> "BiLM":
        """Return the biLM in a folder, or of a file in it, in any format.

        Raises:
            FileNotFoundError, ValueError: As `files.load`.
        """
        return cls.from_stored(files.load(path))

    def save(
        self,
        path: str | Path,
        *,
        format: str = files.OWN,
        dtype: str = "float32",
        softmax: Objective | None = None,
        card: Mapping[str, Any] | None = None,
    ) -> str:
        """Write the biLM into a folder, with the objective that it was trained with and
        the card that says where it comes from, if given. Arguments, fingerprint that is
        returned, and errors are those of `files.save`."""
        stored, kinds = self.stored(), {"format": format, "dtype": dtype}
        return files.save(stored, path, objective=softmax, card=card, **kinds)


def _check_sentences(sentences: Sequence[Sequence[str]]) -> None:
    for sentence in [sentences, *sentences]:
        if isinstance(sentence, str) or not isinstance(sentence, Sequence):
            raise ValueError(Errors.EL025.format(found=type(sentence).__name__))
    for sentence in sentences:
        for token in sentence:
            if not isinstance(token, str):
                raise ValueError(
                    Errors.EL025.format(found=f"a {type(token).__name__} token")
                )
