"""All filters in one product are the convolutions one by one."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_elmo import BiLM

from ..models import any_token, tiny_config

BILM = BiLM.random(tiny_config()).double()
ENCODER = BILM.token_encoder


def in_one_product(ids):
    """Sorted by length first, as it must be, and unsorted again."""
    order = torch.argsort(ENCODER._lengths(ids))
    return ENCODER._strongest(ids[order])[torch.argsort(order)]


@settings(max_examples=80, deadline=None)
@given(
    words=st.lists(any_token, min_size=1, max_size=120),
    trimmed=st.booleans(),
)
def test_of_any_words(words, trimmed):
    """Long ones too, that leave no room for padding."""
    words = [*words, "x" * 47, "가" * 20]
    ids = BILM.character_ids(words)
    ids = torch.from_numpy(BILM.trim(ids) if trimmed else ids)
    assert torch.allclose(in_one_product(ids), ENCODER._convolve(ids), atol=1e-12)


@settings(max_examples=80, deadline=None)
@given(
    ids=st.lists(
        st.lists(st.integers(0, 3), min_size=9, max_size=9), min_size=1, max_size=9
    )
)
def test_of_any_ids(ids):
    """Also such as no word has: runs of equal ids, at the end or not."""
    ids = torch.tensor(ids)
    assert torch.allclose(in_one_product(ids), ENCODER._convolve(ids), atol=1e-12)


def test_gradients_are_the_same():
    words = ["a", "cat", "고양이", "x" * 48, ""] * 3
    ids = torch.from_numpy(BILM.character_ids(words))
    leaves = [ENCODER.char_embedding, *ENCODER.conv_weights]
    grads = [
        torch.autograd.grad((f(ids) ** 2).sum(), leaves)
        for f in (in_one_product, ENCODER._convolve)
    ]
    for ours, theirs in zip(*grads):
        assert torch.allclose(ours, theirs, atol=1e-10)
