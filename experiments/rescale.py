"""Change the scales of a biLM's weights: of token vectors, without a change of what it
computes, and of the inputs of gates that are saturated, with one.

    python . rescale MODEL TEXT OUTPUT

in this folder makes weights to continue the training of. A gate is a sigmoid: where
its input is far from zero it is 0 or 1, and the gradient that all below it learns from
is nothing. The steps of Muon are as long however large or small the weights are, so
without weight decay, or from weights of uneven scales, the inputs of gates can grow.
(Those of version 4 of `ko_elmo_sm` had a standard deviation of 643, in the first LSTM
layer; version 5 of `en_elmo_sm` has 1.4.)
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer
from wasabi import msg

from benchmarks.speed import Sentences, read_sentences
from spacy_elmo import BiLM
from spacy_elmo import models as shipped
from spacy_elmo.models import read_card
from spacy_elmo.pretrain.model import LanguageModel

N_TOKENS = 5_000  # whose vectors are measured
# Standard deviation of the inputs of gates, and factor of what the layer's own state
# adds to them, which has not been learned where it counted for nothing beside these.
GATES, STATE = 1.5, 0.3


def main(
    model: str = typer.Argument(..., help="Model folder with a softmax, or name"),
    text: Path = typer.Argument(..., help="Prepared text, whose vectors are measured"),
    output: Path = typer.Argument(..., help="Folder for the changed model"),
) -> None:
    folder = Path(shipped.find(model))
    found = LanguageModel.load(folder)
    sentences = read_sentences(text, N_TOKENS)
    before = soften_gates(found.bilm, sentences)
    msg.info(f"standard deviation of the gates' inputs: {before:.1f} before")
    card = read_card(folder)  # what it has read is said of what starts from it
    found.bilm.save(output, softmax=found.softmax, card=card)


@torch.no_grad()
def soften_gates(bilm: BiLM, sentences: Sentences) -> float:
    """Give the inputs of the first LSTM layer's gates a standard deviation of GATES,
    the token vectors a mean of zero, and the projection the size that it begins with;
    return the standard deviation before. Raises as `scale_token_layer`."""
    encoder = _char_cnn(bilm)
    tokens = np.concatenate([layers[0] for layers in bilm.encode(sentences)])
    vectors, _ = torch.from_numpy(tokens).chunk(2, dim=1)  # the same ones twice
    mean = vectors.mean(dim=0)
    encoder.projection_bias.sub_(mean)
    stds = []
    for layer in _first_layers(bilm):
        inputs = (vectors - mean) @ layer.weight_x
        stds.append(float(inputs.std()))
        factor = GATES / stds[-1]
        layer.bias.add_(mean @ layer.weight_x).mul_(factor)
        layer.weight_x.mul_(factor)
        layer.weight_h.mul_(STATE)
    weight = encoder.projection_weight
    usual = math.sqrt(2 / sum(weight.shape))  # Glorot & Bengio 2010
    larger = _power_of_two(usual / float(weight.std()))
    weight.mul_(larger)
    encoder.projection_bias.mul_(larger)
    for layer in _first_layers(bilm):
        layer.weight_x.div_(larger)
    return float(np.mean(stds))


@torch.no_grad()
def scale_token_layer(bilm: BiLM, sentences: Sentences) -> float:
    """Give token vectors about the length of the first LSTM layer's outputs, so that an
    average of the layers is not of the token layer alone; return the factor.

    Only the first LSTM layer reads them, so its input weights are divided by the
    factor, and all other layers stay as they are, to the bit: it is a power of two.
    relu, maximum and highway hand a factor of their inputs on, so it is shared by the
    embeddings of characters and the filters, and no array becomes so small that an
    optimizer's first steps would undo it.

    Raises:
        ValueError: The biLM has no projection of tokens, filters with tanh, or a table
            of words.
    """
    encoder = _char_cnn(bilm)
    layers = bilm.encode(sentences)
    token, first, *_ = (
        np.mean([np.linalg.norm(of[n], axis=1).mean() for of in layers])
        for n in range(2)
    )
    scale = _power_of_two(first / token)
    of_characters = 2.0 ** (math.log2(scale) // 2)
    encoder.char_embedding.mul_(of_characters)
    for weight, bias in zip(encoder.conv_weights, encoder.conv_biases):
        weight.mul_(scale / of_characters)
        bias.mul_(scale)
    for highway in encoder.highways:
        highway.carry_weight.div_(scale)
        highway.transform_bias.mul_(scale)
    encoder.projection_bias.mul_(scale)
    for layer in _first_layers(bilm):
        layer.weight_x.div_(scale)
    return scale


def _char_cnn(bilm: BiLM) -> Any:
    """Return the token encoder, if a factor of its features is one of its vectors."""
    config = bilm.config
    if config.activation != "relu" or config.n_words or not config.token_projection:
        raise ValueError("only a char-CNN with relu and a projection can be rescaled")
    return bilm.token_encoder


def _first_layers(bilm: BiLM) -> list[Any]:
    return [lstm.layers[0] for lstm in (bilm.forward_lstm, bilm.backward_lstm)]


def _power_of_two(number: float) -> float:
    """Return the nearest power of two: to multiply by it is exact."""
    return 2.0 ** round(math.log2(number))


if __name__ == "__main__":
    typer.run(main)
