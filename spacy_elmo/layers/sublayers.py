"""Token vectors of a task's own, to stand beside ELMo's in `spacy-elmo.Embed.v1`.

spaCy's own fit there as they are (`spacy.MultiHashEmbed.v2` and others).
"""

from collections.abc import Callable
from typing import Any

import torch
from spacy.ml.staticvectors import StaticVectors
from spacy.tokens import Doc
from spacy.util import registry
from thinc.api import ArgsKwargs, Model, chain, torch2xp, xp2torch
from thinc.layers import ragged2list
from thinc.layers.pytorchwrapper import forward as pytorch_forward
from thinc.types import Floats2d
from torch import Tensor, nn

from ..bilm.config import BiLMConfig
from ..bilm.token_encoder import CharCnnEncoder
from ..bilm.words import encode_words, trim
from .embed import TokenVectors
from .torch_shim import TorchShim

FILTERS = [[1, 32], [2, 32], [3, 64], [4, 64]]


@registry.architectures("spacy-elmo.StaticVectors.v1")
def build_static_vectors(width: int) -> TokenVectors:
    """Vectors of the pipeline's vocabulary (`initialize.vectors`), and one linear layer
    from them to width columns."""
    model: TokenVectors = chain(StaticVectors(nO=width), ragged2list())
    model.set_dim("nO", width)
    return model


@registry.architectures("spacy-elmo.CharCnn.v1")
def build_char_cnn(
    width: int,
    char_dim: int = 16,
    filters: list[list[int]] = FILTERS,
    n_highway: int = 1,
    max_characters: int = 50,
) -> TokenVectors:
    """A char-CNN as the biLM has one (Kim et al. 2015), trained with the task.

    width: of the vectors. filters: width and number of each kind. The rest as in
        `BiLMConfig`. Raises ValueError [EL020].
    """
    config = BiLMConfig(
        hidden_dim=width,
        projection_dim=width,
        char_dim=char_dim,
        filters=tuple((size, n) for size, n in filters),
        n_highway=n_highway,
        max_characters=max_characters,
    )
    wrapped: Model = Model(
        "pytorch",
        pytorch_forward,
        attrs={"convert_inputs": _convert_inputs, "convert_outputs": _convert_outputs},
        shims=[TorchShim(_CharCnn(config))],
    )
    model: TokenVectors = Model(
        "char-cnn",
        _forward,
        init=_init,
        dims={"nO": width},
        layers=[wrapped],
        attrs={
            "max_characters": max_characters,
            "widest": max(size for size, _ in filters),
        },
    )
    return model


class _CharCnn(nn.Module):
    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.encoder = CharCnnEncoder(config)
        generator = torch.Generator().manual_seed(torch.initial_seed() % (1 << 62))
        self.encoder.reset_parameters(generator)

    def forward(self, ids_VC: Tensor, word_N: Tensor) -> Tensor:
        vectors_VH: Tensor = self.encoder(ids_VC)
        return vectors_VH[word_N]


def _init(model: Model, X: Any = None, Y: Any = None) -> None:
    return None


def _forward(
    model: Model, docs: list[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list]]:
    number: dict[str, int] = {}
    word_N = [number.setdefault(t.text, len(number)) for doc in docs for t in doc]
    if not word_N:
        return [model.ops.alloc2f(0, model.get_dim("nO")) for _ in docs], lambda dY: []
    ids_VC = encode_words(list(number), model.attrs["max_characters"])
    (wrapped,) = model.layers
    inputs = torch.from_numpy(trim(ids_VC, model.attrs["widest"])), torch.tensor(word_N)
    Y_ND, backprop_rows = wrapped(inputs, is_train)
    lengths = [len(doc) for doc in docs]

    def backprop(dY: list[Floats2d]) -> list:
        backprop_rows(model.ops.flatten(dY))
        return []

    return model.ops.unflatten(Y_ND, model.ops.asarray1i(lengths)), backprop


def _convert_inputs(model: Model, inputs: Any, is_train: bool) -> Any:
    device = next(model.shims[0]._model.parameters()).device
    return ArgsKwargs(tuple(x.to(device) for x in inputs), {}), lambda d_inputs: []


def _convert_outputs(model: Model, inputs_outputs: Any, is_train: bool) -> Any:
    _, Y_ND = inputs_outputs

    def convert_gradient(dY_ND: Floats2d) -> ArgsKwargs:
        gradient = xp2torch(dY_ND, device=Y_ND.device)
        return ArgsKwargs(args=((Y_ND,),), kwargs={"grad_tensors": (gradient,)})

    return torch2xp(Y_ND), convert_gradient
