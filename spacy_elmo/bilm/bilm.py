"""The biLM that users hold: it reads words, encodes sentences, loads and saves itself.

The model is in model.py, kernels/ computes it, weights/ reads and writes it.

Shapes: V distinct words, C characters, N packed positions, L LSTM layers, T tokens,
H projection, D = 2H.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from ..errors import Errors, Warnings
from ..machine import (
    Precision,
    batch_limits,
    default_settings,
    prepare_for_forks,
    safe_from_forks,
    to_device,
)
from . import weights
from .config import BiLMConfig, check_at_least
from .encode import PackedBatch, check_sentences, in_batches, on_the_host, pack
from .initial_weights import draw_weights
from .kernels import FastBiLM, PreparedWeights, check_precision, is_traced
from .lstm import BiLMState
from .model import BidirectionalLM
from .objectives import Objective
from .steady_state import steady_state
from .token_cache import CACHE_WORDS, TokenCache
from .weights import Mix, StoredBiLM
from .words import UnicodeForm, WordReader, in_form

Start = Literal["zeros", "boundary"]


class BiLM(BidirectionalLM):
    """A bidirectional language model with its vocabulary. The kernels that suit the
    device compute it.

    Args:
        config: All sizes.
        vocab: The words of its softmax or of its word embedding; None if they are not
            known.
        alphabet: Its characters, if it does not read bytes.
        form: The Unicode form of its training text, to which words are converted; None
            to read words as they are.
    """

    def __init__(
        self,
        config: BiLMConfig,
        vocab: Sequence[str] | None = None,
        alphabet: Sequence[str] | None = None,
        form: UnicodeForm | None = None,
    ) -> None:
        super().__init__(config)
        self._prepared = PreparedWeights()
        self.token_cache = TokenCache(CACHE_WORDS)
        self._reader = WordReader(config, vocab, alphabet, form)
        self.mix: Mix | None = None  # of its layers, trained with it

    @classmethod
    @default_settings()
    def random(
        cls, config: BiLMConfig, *, seed: int = 0, vocab: Sequence[str] | None = None
    ) -> "BiLM":
        """Return a biLM with random weights, to start a training from."""
        prepare_for_forks()
        bilm = cls(config, vocab)
        draw_weights(bilm, torch.Generator().manual_seed(seed))
        return bilm.eval()

    @property
    def vocab(self) -> list[str] | None:
        """The words of its softmax or of its word-embedding input. Setting them raises
        ValueError [EL020] if a word embedding has another number of rows."""
        return self._reader.vocab

    @vocab.setter
    def vocab(self, words: Sequence[str] | None) -> None:
        self._read_by(words, self.alphabet, self.form)

    @property
    def alphabet(self) -> list[str] | None:
        """Its characters, if it does not read bytes."""
        return self._reader.alphabet

    @alphabet.setter
    def alphabet(self, alphabet: Sequence[str] | None) -> None:
        self._read_by(self.vocab, alphabet, self.form)

    @property
    def form(self) -> UnicodeForm | None:
        """The Unicode form that words are turned to; None if they are not."""
        return self._reader.form

    @form.setter
    def form(self, form: UnicodeForm | None) -> None:
        self._read_by(self.vocab, self.alphabet, form)

    def _read_by(
        self,
        vocab: Sequence[str] | None,
        alphabet: Sequence[str] | None,
        form: UnicodeForm | None,
    ) -> None:
        self._reader = WordReader(self.config, vocab, alphabet, form)
        self.token_cache.clear()

    def as_read(self, words: Sequence[str]) -> Sequence[str]:
        """Return words as the model reads them, in its Unicode form."""
        return in_form(words, self.form)

    @property
    def device(self) -> torch.device:
        """The device of its weights."""
        return next(self.parameters()).device

    @property
    def n_parameters(self) -> int:
        """The number of its weights."""
        return sum(p.numel() for p in self.parameters())

    @property
    def fast(self) -> FastBiLM:
        """This biLM, computed by the kernels that suit its device. It is made anew each
        time: kept here, it would keep the weights in memory when nobody needs them."""
        return FastBiLM(self, self._prepared)

    @property
    def precision(self) -> Precision:
        """The precision that it computes in without gradients."""
        return self._prepared.precision

    def set_precision(self, precision: Precision) -> "BiLM":
        """Compute without gradients in "float32", in "half", which is faster and less
        exact, or on a GPU in "tf32" (machine/processor.py), and return the biLM itself.

        Raises:
            ValueError: [EL073] There is no such precision. [EL077] This device does not
                have it. [EL097] int8 was removed.
        """
        check_precision(precision, self.fast.dispatch_key())
        self._prepared.precision = precision
        self._prepared.clear()
        self.token_cache.clear()
        return self

    def set_exact(self, exact: bool) -> "BiLM":
        """Warn [ELW57], and return the biLM itself: on a CPU a sentence always has the
        same vectors in any batch, bit for bit."""
        warnings.warn(Warnings.ELW57(), stacklevel=2)
        return self

    def train(self, mode: bool = True) -> "BiLM":
        """Put the biLM into training mode, or out of it, as `nn.Module.train`. Prepared
        weights and cached token vectors are dropped (see `Prepared`)."""
        if mode != self.training:
            self._prepared.clear()
            self.token_cache.clear()
        return super().train(mode)

    # -- words --------------------------------------------------------------------

    def character_ids(self, words: Sequence[str]) -> np.ndarray:
        """Return the ids of words' characters, (V, C)."""
        return self._reader.character_ids(words)

    def trim(self, ids_VC: np.ndarray) -> np.ndarray:
        """Return character ids without padding that changes no vector."""
        return self._reader.trim(ids_VC)

    def token_vectors(self, words: Sequence[str]) -> Tensor:
        """Return context-independent vectors of distinct words, (V, H). Those in the
        cache are not computed again, unless a gradient is asked for or torch records
        operations."""
        prepare_for_forks()
        if torch.is_grad_enabled() or is_traced() or not self.token_cache.size:
            return self.compute_token_vectors(words)
        encoder, compute = self.token_encoder, self.compute_token_vectors
        return self.token_cache.vectors(words, encoder, compute)

    def compute_token_vectors(self, words: Sequence[str]) -> Tensor:
        """Compute the vectors of distinct words, (V, H), without the cache."""
        ids = [to_device(array, self.device) for array in self._reader.ids(words)]
        return self.fast.token_vectors(ids[:1], *ids[1:])

    # -- sentences ----------------------------------------------------------------

    def forward(  # type: ignore[override]  # words in place of their ids
        self, batch: PackedBatch, state: BiLMState | None = None, dropout: float = 0.0
    ) -> tuple[Tensor, BiLMState]:
        """Compute the layers of a batch.

        Args:
            batch: The sentences, packed by `pack` into N rows.
            state: The state that both directions start from, its rows in packed order;
                None for zeros.
            dropout: Dropout rate on the input of every LSTM layer while training.

        Returns:
            The layers, (L+1, N, D), and the state after the batch.
        """
        device = self.device
        with safe_from_forks():
            word_N = to_device(batch.word_N, device)
            reversed_N = to_device(batch.reversed_N, device)
            x_VH = self.token_vectors(batch.words)
            return self.fast.layers(
                x_VH, word_N, reversed_N, batch.batch_sizes, state, dropout
            )

    def zero_state(self, batch_size: int) -> BiLMState:
        """Return the state of new sequences."""
        return BiLMState.zeros(self.config, batch_size, next(self.parameters()))

    def encode(
        self,
        sentences: Sequence[Sequence[str]],
        *,
        batch_tokens: int | None = None,
        start: Start = "zeros",
    ) -> list[np.ndarray]:
        """Return the layers of each sentence, in order, as float32 (L+1, T, D).

        The vectors of a sentence depend on that sentence alone.

        Args:
            sentences: Each a list of tokens.
            batch_tokens: Most tokens of a batch, which bounds memory. A longer sentence
                is a batch of its own. None for 4,096 on a CPU, 32,768 on a GPU.
            start: The state that each sentence starts from: "zeros", or "boundary", the
                state after many empty sentences, which is nearer to running text.

        Raises:
            ValueError: [EL021, EL025, EL026] The start, sentences or batch_tokens.
            MemoryError: [EL080] A GPU's memory does not hold a sentence.
        """
        each = dict(self.encode_each(sentences, batch_tokens=batch_tokens, start=start))
        return [each[b] for b in range(len(sentences))]

    @torch.inference_mode(False)
    @torch.no_grad()
    def encode_each(
        self,
        sentences: Sequence[Sequence[str]],
        *,
        batch_tokens: int | None = None,
        start: Start = "zeros",
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the number and the layers of each sentence as they are computed, the
        longest first: only those of one batch are in memory. Arguments, layers and
        errors are those of `encode`."""
        prepare_for_forks()
        check_sentences(sentences)
        if batch_tokens is None:
            batch_tokens = batch_limits(self.device).tokens
        check_at_least(1, batch_tokens=batch_tokens)
        if start not in get_args(Start):
            raise Errors.EL021(start=start)
        first = self.zero_state(1)
        if sentences and start == "boundary":  # the state that empty sentences lead to
            with default_settings():
                first = steady_state(lambda state: self(pack([[]]), state)[1], first)

        def encode_some(
            some: Sequence[int], batch: PackedBatch
        ) -> Iterable[np.ndarray]:
            with default_settings():
                state = first.map(lambda part: part.expand(-1, len(some), -1))
                layers_LND, _ = self(batch, state)
                tokens = [sentences[b] for b in some]
                return on_the_host(layers_LND, tokens, batch.positions)

        for some, arrays in in_batches(sentences, batch_tokens, encode_some):
            yield from zip(some, arrays)
            del arrays  # before the next batch's layers are made

    @default_settings()
    def encode_stateful(
        self, sentences: Sequence[Sequence[str]], state: BiLMState | None = None
    ) -> tuple[list[np.ndarray], BiLMState]:
        """Return the layers of one batch, and the state after it. Row b continues row b
        of the state, as AllenNLP and bilm-tf do from call to call. A smaller batch
        continues the first rows, and the other rows are kept. In a larger batch, the
        new rows start from zeros.

        Args:
            sentences: The batch, each sentence a list of tokens.
            state: The state that the previous call returned; None for zeros.

        Returns:
            The layers of each sentence, float32 (L+1, T, D), and the state. It has as
            many rows as the largest batch so far.

        Raises:
            ValueError: [EL025] The sentences are not lists of strings.
        """
        prepare_for_forks()
        check_sentences(sentences)
        n = len(sentences)
        if state is None:
            state = self.zero_state(n)
        if not n:
            return [], state
        new = self.zero_state(max(0, n - state.forward.h.shape[1]))
        begin = BiLMState.join([state.rows(slice(n)), new])
        kept = state.rows(slice(n, None))
        batch = pack(sentences)
        order_B = to_device(batch.order_B, self.device)
        layers_LND, state = self(batch, begin.select(order_B))
        layers = on_the_host(layers_LND, sentences, batch.positions)
        state = state.select(torch.argsort(order_B))
        return list(layers), BiLMState.join([state, kept])

    # -- files --------------------------------------------------------------------

    @classmethod
    @default_settings()
    def empty(cls, config: BiLMConfig) -> "BiLM":
        """Return a biLM whose parameters have shapes but no memory."""
        with torch.device("meta"):
            return cls(config)

    @classmethod
    @default_settings()
    def from_stored(cls, stored: StoredBiLM) -> "BiLM":
        """Return the biLM that `weights.load` has read."""
        prepare_for_forks()
        with torch.device("meta"):
            bilm = cls(stored.config, stored.vocab, stored.alphabet, stored.form)
        bilm.load_state_dict(stored.arrays, strict=True, assign=True)
        bilm.mix = stored.mix
        return bilm.requires_grad_(True).eval()

    def stored(self) -> StoredBiLM:
        """Return the sizes, words and arrays that files hold. Arrays are not copied."""
        prepare_for_forks()
        arrays = self.state_dict()
        words = self.vocab, self.alphabet
        return StoredBiLM(self.config, *words, arrays, self.mix, self.form)

    def fingerprint(self) -> str:
        """Return a SHA-256 of everything that the vectors depend on, except the Unicode
        form: it does not change text that is in this form."""
        return self.stored().fingerprint

    @classmethod
    @default_settings()
    def load(cls, path: str | Path) -> "BiLM":
        """Return the biLM in a folder, or of a file in it, in any format. Raises as
        `weights.load`."""
        return cls.from_stored(weights.load(path))

    def save(
        self,
        path: str | Path,
        *,
        format: str = weights.OWN,
        dtype: str = "float32",
        softmax: Objective | None = None,
        card: Mapping[str, Any] | None = None,
    ) -> str:
        """Write the biLM into a folder. All files of a model there are replaced, or
        none.

        Args:
            path: The folder.
            format: Registered name of a format that can be written.
            dtype: Dtype of the arrays in the files. They are read as float32.
            softmax: The objective of the training, so that training can go on.
            card: The origin of the model.

        Returns:
            The fingerprint of the files.

        Raises:
            ValueError, OSError: As `weights.save`.
        """
        stored, kinds = self.stored(), {"format": format, "dtype": dtype}
        return weights.save(stored, path, objective=softmax, card=card, **kinds)
