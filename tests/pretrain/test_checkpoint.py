"""What checkpoints hold of optimizers: whatever their state dicts hold."""

import copy
import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.objectives import SampledSoftmax
from spacy_elmo.pretrain import checkpoint
from spacy_elmo.pretrain.checkpoint import flatten, unflatten
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.pretrain.optimizers import adagrad, adam, muon, sgd

from ..models import tiny_config

plain = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
)
tensors = st.lists(st.floats(-9, 9), max_size=3).map(torch.tensor)
nested = st.recursive(
    plain | tensors,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.integers() | st.text(), inner, max_size=3)
    ),
    max_leaves=12,
)


def same(a, b):
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.equal(a, b) and a.dtype == b.dtype
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


@given(value=nested)
def test_any_nested_value_is_saved_and_restored(value):
    arrays = {}
    text = json.dumps(flatten(value, "name", arrays))
    assert all(isinstance(array, torch.Tensor) for array in arrays.values())
    assert same(unflatten(json.loads(text), arrays), value)


def model_with(make_optimizers):
    torch.manual_seed(0)
    bilm = BiLM.random(tiny_config())
    model = LanguageModel(bilm, SampledSoftmax(bilm.config.projection_dim, 30, 5))
    dense = dict(model.bilm.named_parameters(prefix="bilm"))
    sparse = dict(model.softmax.named_parameters(prefix="softmax"))
    return model, make_optimizers(dense, sparse)


def with_momentum(dense, sparse):
    return [torch.optim.SGD(dense.values(), 0.1, momentum=0.9, nesterov=True)]


def in_groups(dense, sparse):
    some = list(dense.values())
    groups = [{"params": some[:2]}, {"params": some[2:], "lr": 1e-4}]
    return [torch.optim.RMSprop(groups, 0.1, centered=True)]


@pytest.mark.parametrize(
    "make",
    [
        adam().make,
        adam(weight_decay=0.1).make,
        adagrad().make,
        sgd().make,
        muon().make,
        with_momentum,
        in_groups,
    ],
    ids=["Adam", "AdamW", "Adagrad", "SGD", "Muon", "momentum", "two groups"],
)
def test_an_optimizer_makes_the_same_step_after_it_was_loaded(tmp_path, make):
    def update(model, optimizers, seed):
        generator = torch.Generator().manual_seed(seed)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                for p in group["params"]:
                    p.grad = torch.randn(p.shape, generator=generator)
                    if p.shape[0] == 30:
                        p.grad = p.grad.to_sparse(1)
            optimizer.step()

    one, optimizers = model_with(make)
    update(one, optimizers, 1)
    state = one.bilm.zero_state(3).map(torch.randn_like)
    checkpoint.save(tmp_path, one, optimizers, state, {"step": 1})
    update(one, optimizers, 2)
    other, others = model_with(make)
    other.load_state_dict(copy.deepcopy(model_with(make)[0].state_dict()))
    loaded = checkpoint.load(tmp_path, other, others)
    for direction, saved in zip(loaded, state, strict=True):
        assert torch.equal(direction.h, saved.h) and torch.equal(direction.c, saved.c)
    update(other, others, 2)
    for name, array in one.state_dict().items():
        assert torch.equal(array, other.state_dict()[name]), name


def test_state_that_can_not_be_saved(tmp_path):
    model, optimizers = model_with(adam().make)
    optimizers[0].param_groups[0]["hook"] = print
    with pytest.raises(ValueError, match=r"EL120.*hook"):
        checkpoint.save(tmp_path, model, optimizers, model.bilm.zero_state(1), {})
    assert not list(tmp_path.iterdir())


def test_state_that_could_not_be_restored(tmp_path):
    """JSON has lists in place of tuples, and no list is a key."""
    model, optimizers = model_with(adam().make)
    optimizers[0].param_groups[0]["sizes"] = {("a", 1): 2}
    with pytest.raises(ValueError, match=r"EL120.*sizes.*tuple"):
        checkpoint.save(tmp_path, model, optimizers, model.bilm.zero_state(1), {})


def test_state_that_shares_memory_is_saved(tmp_path):
    """As of an optimizer that begins with the parameters themselves."""
    (one, optimizers), (other, others) = (model_with(with_momentum) for _ in range(2))
    (first, *_), state = one.parameters(), one.bilm.zero_state(1)
    optimizers[0].state[first]["momentum_buffer"] = first.detach()
    checkpoint.save(tmp_path, one, optimizers, state, {"step": 1})
    checkpoint.load(tmp_path, other, others)
    found = others[0].state[next(other.parameters())]["momentum_buffer"]
    assert torch.equal(found, first)


@pytest.mark.parametrize("name", list(checkpoint.PROGRESS))
def test_progress_that_lacks_something(tmp_path, name):
    model, optimizers = model_with(adam().make)
    progress = {"step": 1, "n_steps": 2, "identity": {}, "seconds": 1, "recent": []}
    whole, state = {**progress, "results": {}}, model.bilm.zero_state(1)
    checkpoint.save(tmp_path, model, optimizers, state, whole)
    assert checkpoint.read_progress(tmp_path) == whole
    for spoilt in ({**whole, name: "x"}, {k: whole[k] for k in whole if k != name}):
        checkpoint.save(tmp_path, model, optimizers, state, spoilt)
        with pytest.raises(ValueError, match=f"EL046.*{name}"):
            checkpoint.read_progress(tmp_path)


def test_another_number_of_optimizers(tmp_path):
    model, optimizers = model_with(adam().make)
    checkpoint.save(tmp_path, model, optimizers, model.bilm.zero_state(1), {})
    with pytest.raises(ValueError, match="EL046"):
        checkpoint.load(tmp_path, *model_with(sgd().make))
