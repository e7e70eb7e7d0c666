"""A straightforward biLM: what one writes first, and what speed is measured against.

Every token goes through the char-CNN with all its characters, every step of the LSTM is
a row of products, sentences are padded to the longest, the softmax takes all words for
all predictions at once, and autograd does the rest. The same maths as ours, from the
same weights; tests compare the two.

Shapes: T steps, B streams or sentences, C characters, H projection, L LSTM layers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.lstm import LstmStack, LstmState
from spacy_elmo.bilm.words import BOS, EOS, encode_words
from spacy_elmo.pretrain.model import LanguageModel, State


def loss(
    model: LanguageModel,
    characters: tuple[Tensor, Tensor],
    targets: tuple[Tensor, Tensor],
    state: State,
) -> tuple[Tensor, State]:
    """model: one with a full softmax, whose weights are used.

    characters: ids that each direction reads, (T, B, C). targets: words to predict,
    (T, B), -1 for none.
    RETURNS: mean loss of both directions, and the state to carry on.
    """
    bilm = model.bilm
    softmax: Any = model.softmax
    logits, wanted, states = [], [], []
    for ids_TBC, target_TB, stack, (h_LBH, c_LBC) in zip(
        characters, targets, (bilm.forward_lstm, bilm.backward_lstm), state
    ):
        x_TBH = encode(bilm.token_encoder, ids_TBC)
        layers, carried = read(stack, x_TBH, h_LBH, c_LBC)
        logits.append(F.linear(layers[-1], softmax.weight, softmax.bias))
        wanted.append(target_TB)
        states.append(carried)
    mean = F.cross_entropy(
        torch.stack(logits).flatten(0, 2),
        torch.stack(wanted).flatten(),
        ignore_index=-1,
    )
    return mean, (states[0], states[1])


@torch.no_grad()
def vectors(bilm: BiLM, sentences: Sequence[Sequence[str]]) -> Tensor:
    """Layers of sentences, as `BiLM.encode` gives them, but of one batch and padded:
    (L+1, T, B, 2H), boundaries included."""
    lengths = [len(sentence) + 2 for sentence in sentences]
    longest = max(lengths)
    rows = [
        [BOS, *sentence, EOS, *[""] * (longest - length)]
        for sentence, length in zip(sentences, lengths)
    ]
    ids_BTC = torch.from_numpy(
        np.stack([encode_words(row, bilm.config.max_characters) for row in rows])
    )
    x_TBH = encode(bilm.token_encoder, ids_BTC.transpose(0, 1).to(bilm.device))
    mirror_TB = torch.tensor(
        [
            [length - 1 - t if t < length else t for length in lengths]
            for t in range(longest)
        ],
        device=bilm.device,
    )
    where = mirror_TB, torch.arange(len(rows), device=bilm.device)
    forward, backward = bilm.zero_state(len(rows))
    ahead, _ = read(bilm.forward_lstm, x_TBH, *forward)
    back, _ = read(bilm.backward_lstm, x_TBH[where], *backward)
    layers = [torch.cat([x_TBH, x_TBH], dim=2)]
    layers += [torch.cat([a, b[where]], dim=2) for a, b in zip(ahead, back)]
    return torch.stack(layers)


def encode(encoder: Any, ids_TBC: Tensor) -> Tensor:
    """A char-CNN encoder's token vectors, (T, B, H)."""
    T, B, C = ids_TBC.shape
    characters = F.embedding(ids_TBC.reshape(T * B, C), encoder.char_embedding)
    characters = characters.transpose(1, 2)
    features = [
        encoder.activation(F.conv1d(characters, weight, bias)).max(dim=2).values
        for weight, bias in zip(encoder.conv_weights, encoder.conv_biases)
    ]
    x = torch.cat(features, dim=1)
    for highway in encoder.highways:
        gate = torch.sigmoid(x @ highway.carry_weight + highway.carry_bias)
        new = torch.relu(x @ highway.transform_weight + highway.transform_bias)
        x = gate * new + (1 - gate) * x
    x = x @ encoder.projection_weight + encoder.projection_bias
    return x.view(T, B, -1)


def read(
    stack: LstmStack, x_TBH: Tensor, h_LBH: Tensor, c_LBC: Tensor
) -> tuple[list[Tensor], LstmState]:
    """The layers, each (T, B, H), and the state after the last step."""
    layers, last_h, last_c = [], [], []
    for i, layer in enumerate(stack.layers):
        h, c, outputs = h_LBH[i], c_LBC[i], []
        for t in range(len(x_TBH)):
            h, c = step(layer, x_TBH[t], h, c)
            outputs.append(h)
        y_TBH = torch.stack(outputs)
        x_TBH = y_TBH + x_TBH if stack.skip_connections and i > 0 else y_TBH
        layers.append(x_TBH)
        last_h.append(h.detach())
        last_c.append(c.detach())
    return layers, LstmState(torch.stack(last_h), torch.stack(last_c))


def step(layer: Any, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """One step of an LstmpLayer."""
    config = layer.config
    z = x @ layer.weight_x + h @ layer.weight_h + layer.bias
    o, i, f, g = z.chunk(4, dim=1)
    kept = torch.sigmoid(f + config.forget_bias) * c
    c = kept + torch.sigmoid(i) * torch.tanh(g)
    if config.cell_clip is not None:
        c = c.clamp(-config.cell_clip, config.cell_clip)
    h = torch.sigmoid(o) * torch.tanh(c)
    if layer.weight_p is not None:
        h = h @ layer.weight_p
        if config.proj_clip is not None:
            h = h.clamp(-config.proj_clip, config.proj_clip)
    return h, c
