"""Whether what files hold is a model: names and shapes, values, words, characters."""

from collections.abc import Mapping
from pathlib import Path

import torch

from ...errors import Errors
from ..config import BiLMConfig
from ..model import BidirectionalLM
from ..words import MARKS
from .stored import StoredBiLM

Shape = tuple[int, ...]


def parameter_shapes(config: BiLMConfig) -> dict[str, Shape]:
    """Return the shape of every parameter of a biLM, by its name in the state dict."""
    with torch.device("meta"):  # shapes without memory
        arrays = BidirectionalLM(config).state_dict()
    return {name: tuple(array.shape) for name, array in arrays.items()}


def check_shapes(
    path: str | Path, found: Mapping[str, Shape], config: BiLMConfig
) -> None:
    """Compare the shapes of arrays with those that sizes ask for. Formats do this
    before they read an array, so that memory is only taken for arrays that fit.

    Args:
        path: The file, for messages.
        found: Shape of each array, by its name in the state dict.
        config: The sizes.

    Raises:
        ValueError: [EL006] if one is missing, [EL007] if one has another shape, [EL011]
            if there is one that the model does not have.
    """
    expected = parameter_shapes(config)
    for name, shape in expected.items():
        if name not in found:
            raise ValueError(Errors.EL006.format(path=path, name=name))
        if found[name] != shape:
            raise ValueError(
                Errors.EL007.format(
                    path=path, name=name, found=found[name], expected=shape
                )
            )
    unknown = sorted(set(found) - set(expected))
    if unknown:
        raise ValueError(Errors.EL011.format(path=path, names=", ".join(unknown[:5])))


def checked(stored: StoredBiLM, path: str | Path) -> StoredBiLM:
    """Return a model with float32 arrays, if all of it fits together.

    Args:
        stored: What a format has read.
        path: Where from, for messages.

    Raises:
        ValueError: As `check_shapes`; [EL008] on NaN or infinity, [EL022] or [EL023] if
            the vocabulary does not belong to the word embeddings, [EL003] if the
            alphabet does not belong to the character embeddings.
    """
    config = stored.config
    check_words(path, config, stored.vocab, stored.alphabet)
    shapes = {name: tuple(array.shape) for name, array in stored.arrays.items()}
    check_shapes(path, shapes, config)
    for name, array in stored.arrays.items():
        if not torch.isfinite(array).all():
            raise ValueError(Errors.EL008.format(name=name, path=path))
    return stored.to(torch.float32)


def check_words(
    path: str | Path,
    config: BiLMConfig,
    vocab: list[str] | None,
    alphabet: list[str] | None,
) -> None:
    """Compare a vocabulary and an alphabet with the embeddings that they belong to.

    Raises:
        ValueError: [EL022] if the vocabulary is missing, [EL023] if it has another
            number of words, [EL003] if the alphabet is not one or has another size.
    """
    if config.n_words and vocab is None:
        raise ValueError(Errors.EL022.format(path=path))
    if config.n_words and vocab is not None and len(vocab) != config.n_words:
        raise ValueError(
            Errors.EL023.format(path=path, found=len(vocab), expected=config.n_words)
        )
    if config.characters != "alphabet":
        return
    n_expected, problem = config.n_characters - 1, None
    if not isinstance(alphabet, list) or not all(isinstance(c, str) for c in alphabet):
        problem = "its alphabet is not a list of characters"
    elif len(alphabet) != n_expected:
        problem = f"its alphabet has {len(alphabet)} characters for {n_expected} rows"
    elif missing := [mark for mark in MARKS if mark not in alphabet]:
        problem = f"its alphabet has no {', '.join(missing)}"
    if problem:
        raise ValueError(Errors.EL003.format(path=path, problem=problem))
