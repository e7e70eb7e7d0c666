"""The bidirectional language model of ELMo (Peters et al. 2018). START READING HERE.

    token ids -> token_encoder.py -> x (V, H), a vector for each distinct word
              -> lstm.py, once in each direction -> L layers beside the token layer

These three files are the definition of the model, in plain PyTorch. `kernels/` computes
the same functions faster, and tests compare the two. Users hold a `BiLM` (bilm.py): the
model with a vocabulary, computed by kernels.

Shapes: V distinct words, N packed positions (see lstm.py), H projection, D = 2H.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .config import BiLMConfig
from .lstm import BiLMState, LstmStack
from .token_encoder import CharCnnEncoder, WordEncoder


class BidirectionalLM(nn.Module):
    """A token encoder that both directions share, and an LSTM stack for each direction
    (section 3.1)."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.config = config
        self.token_encoder: CharCnnEncoder | WordEncoder
        if config.has_characters:
            self.token_encoder = CharCnnEncoder(config)
        else:
            self.token_encoder = WordEncoder(config)
        self.forward_lstm = LstmStack(config)
        self.backward_lstm = LstmStack(config)

    def forward(
        self,
        token_ids: Sequence[Tensor],
        word_N: Tensor,
        reversed_N: Tensor,
        batch_sizes: Sequence[int],
        state: BiLMState,
    ) -> tuple[Tensor, BiLMState]:
        """Return the layers of packed sentences, (L+1, N, D), and the state after them.

        Args:
            token_ids: Arguments of the token encoder for the V distinct words:
                character ids (V, C), word ids (V,), or both.
            word_N: The word at each packed position.
            reversed_N: The position that mirrors each one in its sentence.
            batch_sizes: Number of sentences that are longer than t, for each step t.
            state: The state of both directions before the first step.
        """
        x_VH = self.token_encoder(*token_ids)
        ahead, back, state = self.read(
            x_VH, word_N, word_N[reversed_N], batch_sizes, state
        )
        return self.join(x_VH[word_N], ahead, back, reversed_N), state

    def read(
        self,
        x_VH: Tensor,
        forward_N: Tensor,
        backward_N: Tensor,
        batch_sizes: Sequence[int],
        state: BiLMState,
        dropout: float = 0.0,
    ) -> tuple[list[Tensor], list[Tensor], BiLMState]:
        """Read packed sequences in both directions (section 3.1).

        Args:
            x_VH: Token vectors.
            forward_N: Row of x_VH that the forward direction reads at each position.
            backward_N: Row of x_VH that the backward direction reads at each position.
                Its first step is the last token of each sequence.
            batch_sizes: Number of sequences that are longer than t, for each step t.
            state: The state of both directions before the first step.
            dropout: Rate on the input of every layer in training.

        Returns:
            The outputs of the L layers, (N, H) each: of the forward direction, and of
            the backward direction in its own order. Then the state after the last step.
        """
        ahead, ahead_state = self.forward_lstm(
            x_VH[forward_N], batch_sizes, state.forward, dropout
        )
        back, back_state = self.backward_lstm(
            x_VH[backward_N], batch_sizes, state.backward, dropout
        )
        return ahead, back, BiLMState(ahead_state, back_state)

    def join(
        self,
        x_NH: Tensor,
        ahead: Sequence[Tensor],
        back: Sequence[Tensor],
        reversed_N: Tensor,
    ) -> Tensor:
        """Return the layers, (L+1, N, D): [x; x], then [forward_l; backward_l] for each
        layer l (section 3.2).

        Args:
            x_NH: Token vectors at all positions.
            ahead: Outputs of the forward direction, by `read`.
            back: Outputs of the backward direction, by `read`.
            reversed_N: The position that mirrors each one in its sentence.
        """
        parts = [x_NH, x_NH]
        for ahead_NH, back_NH in zip(ahead, back):
            parts += [ahead_NH, back_NH[reversed_N]]
        layers_NLD = torch.cat(parts, dim=1).unflatten(1, (len(ahead) + 1, -1))
        return layers_NLD.transpose(0, 1)
