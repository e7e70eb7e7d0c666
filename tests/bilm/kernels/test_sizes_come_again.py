"""For each size of a matrix multiplication that it meets, oneDNN makes code and keeps
it: batches of training that differ a little are to bring the same sizes."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.objectives import AdaptiveSoftmax
from spacy_elmo.bilm.token_encoder import CharCnnEncoder

from ...models import tiny_config

N_WORDS = (130, 133, 136)


class Sizes(TorchDispatchMode):
    """Notes the sizes of all matrix multiplications."""

    def __init__(self):
        super().__init__()
        self.found = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm):
            a, b = args[-2:]
            self.found.add((*a.shape, *b.shape))
        return function(*args, **(kwargs or {}))


def sizes_of(run):
    with Sizes() as sizes, torch.autocast("cpu", torch.bfloat16):
        run().sum().backward()
    assert sizes.found
    return sizes.found


def test_of_the_char_cnn():
    bilm = BiLM.random(tiny_config())
    ids = torch.randint(1, 200, (max(N_WORDS), 9))
    encode = bilm.fast.token_vectors
    found = [sizes_of(lambda n=n: encode([ids[:n]])) for n in N_WORDS]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("n_words", [1, 5, 130])
def test_beside_a_word_table(n_words):
    """Whatever the number of words that are read to fill a batch up."""
    config = tiny_config(n_words=200, word_dim=4)
    bilm = BiLM.random(config)
    encoder = bilm.token_encoder
    definition = CharCnnEncoder(config).double()
    definition.load_state_dict(encoder.state_dict())
    words = [f"{'x' * (n % 9)}{n}" for n in range(n_words)]
    ids = torch.from_numpy(BiLM(tiny_config()).character_ids(words))
    numbers = torch.arange(n_words)
    found = []
    fast = lambda ids, numbers: bilm.fast.token_vectors([ids], numbers)  # noqa: E731
    for each, compute in ((encoder, fast), (definition, definition)):
        vectors = compute(ids, numbers)
        weights = torch.linspace(-1, 1, vectors.numel(), dtype=vectors.dtype)
        loss = (vectors.flatten() * weights).sum()
        found.append([vectors, *torch.autograd.grad(loss, list(each.parameters()))])
    for a, b in zip(*found, strict=True):
        assert (a - b).abs().max() < 1e-5 * b.abs().max().clamp(min=1)


@pytest.mark.parametrize("n_rare", [(130, 150), (300, 310)])
def test_of_the_adaptive_softmax(n_rare):
    """Whatever the number of rare words in a batch."""
    torch.manual_seed(0)
    objective = AdaptiveSoftmax(16, 700, [20])
    h_NH = torch.randn(400, 16)
    found = []
    for n in n_rare:
        target_N = torch.where(torch.arange(400) < n, 300, 3)
        leaf = h_NH.clone().requires_grad_()
        found.append(sizes_of(lambda t=target_N, h=leaf: objective(h, t)))
    assert found[0] == found[1]
