"""The view of the tokens of one or two sentences: their similarity in each layer, and
how well the language model predicts each token.

Shapes: L layers, T tokens, D width, H projection.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..bilm import UNK, BiLM, pack
from ..bilm.objectives import Objective
from ..errors import Errors
from ..machine import default_settings
from .neighbours import unit
from .page import View, visible

MAX_TOKENS = 150  # most tokens of a sentence, each a row of the matrix


@default_settings()
def sentence_view(
    bilm: BiLM,
    first: Sequence[str],
    second: Sequence[str] | None = None,
    *,
    softmax: Objective | None = None,
    about: str = "",
) -> View:
    """Return a view of the cosine of every token of a sentence with every token of
    another, in each layer, and of the surprise of each token.

    Args:
        bilm: The model.
        first: Tokens of a sentence.
        second: Tokens of another sentence; None to compare the first with itself.
        softmax: The objective of the model's training, to show the surprise of tokens.
        about: A line for the page, the name of the model for instance.

    Raises:
        ValueError: [EL221] A sentence is empty or too long for a page.
    """
    sentences = [first] if second is None else [first, second]
    for tokens in sentences:
        if not 0 < len(tokens) <= MAX_TOKENS:
            raise Errors.EL221(found=len(tokens), limit=MAX_TOKENS)
    sentences = [bilm.as_read(tokens) for tokens in sentences]
    units = [unit(layers_LTD) for layers_LTD in bilm.encode(sentences)]
    cosine_LTU = np.clip(units[0] @ units[-1].swapaxes(1, 2), -1, 1)
    data: dict[str, Any] = {
        "sentences": [[visible(token) for token in s] for s in sentences],
        "cosines": (cosine_LTU * 1000).round().astype(int).tolist(),
        "surprise": None,
    }
    if softmax is not None:
        known, both = set(bilm.vocab or []), ("forward", "backward")
        data["surprise"] = [
            {name: x.round(2).tolist() for name, x in zip(both, found)}
            | {"known": [token in known for token in tokens]}
            for tokens in sentences
            for found in [surprise(bilm, softmax, tokens)]
        ]
    kind = "Tokens of a sentence" if second is None else "Tokens of two sentences"
    return View("sentence", kind, about, data)


@default_settings()
def surprise(
    bilm: BiLM, softmax: Objective, sentence: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return -log2 of the probability of every token of a sentence, (T,): first given
    the tokens before it, then given the tokens after it (paper, section 3.1). A token
    outside the vocabulary has the probability of <UNK>.

    Args:
        bilm: A model with a vocabulary.
        softmax: The objective of its training.
        sentence: The tokens.
    """
    numbers = {word: i for i, word in enumerate(bilm.vocab or [])}
    targets = [numbers.get(token, numbers[UNK]) for token in sentence]
    target_T = torch.tensor(targets, device=bilm.device)
    layers_LND, _ = bilm(pack([sentence]))  # with <S> and </S> at the ends
    ahead_NH, back_NH = layers_LND[-1].float().chunk(2, dim=1)
    log_p = softmax(ahead_NH[:-2], target_T), softmax(back_NH[2:], target_T)
    ahead_T, back_T = (-(x.double().cpu().numpy()) / math.log(2) for x in log_p)
    return ahead_T, back_T
