"""Where our shim differs from Thinc's."""

import pickle

import numpy as np
import pytest
import torch
from safetensors.torch import load
from spacy.util import fix_random_seed

from spacy_elmo.pipeline.shim import TorchShim

from ..pipelines import examples, moved, parameters, pipeline, trained


def test_parameter_averages_reach_the_bilm():
    from thinc.api import Adam

    nlp = pipeline(frozen=False, learn_rate_factor=1.0)
    batch = examples(nlp)
    nlp.initialize(lambda: batch)
    optimizer = Adam(0.01, use_averages=True)
    for _ in range(5):
        nlp.update(batch, sgd=optimizer)
    now = parameters(nlp)
    with nlp.use_params(optimizer.averages):
        assert moved(now, nlp)
        first = next(iter(nlp.get_pipe("elmo").bilm.named_parameters()))
        key = nlp.get_pipe("elmo").model.layers[0].shims[0].key(first[0])
        assert np.allclose(first[1].detach().numpy(), optimizer.averages[key])
    assert not moved(now, nlp)


def test_averages_between_two_updates_change_nothing():
    """nlp.update leaves the last gradients to the next one."""

    def train(look):
        fix_random_seed(0)
        nlp = pipeline(frozen=False)
        batch = examples(nlp)
        optimizer = nlp.initialize(lambda: batch)
        for _ in range(3):
            nlp.update(batch, sgd=optimizer)
            shim = nlp.get_pipe("elmo").model.layers[0].shims[0]
            weights = shim.bilm.named_parameters()
            zeros = {
                shim.key(name): 0 * each.detach().numpy() for name, each in weights
            }
            with nlp.use_params(zeros if look else {}):
                nlp("I like London")
        return parameters(nlp)

    assert all(map(np.array_equal, train(look=True), train(look=False)))


def test_parameter_averages_reach_any_module():
    from thinc.api import Adam

    module = torch.nn.Linear(2, 2)
    shim = TorchShim(module)
    optimizer = Adam(0.1, use_averages=True)
    for _ in range(4):
        module.weight.grad = torch.ones(2, 2)
        shim.finish_update(optimizer)
    now = module.weight.detach().clone()
    with shim.use_params(optimizer.averages):
        average = optimizer.averages[shim.key("weight")]
        assert np.allclose(module.weight.detach().numpy(), average)
        assert not torch.equal(module.weight, now)
    assert torch.equal(module.weight, now)


def test_modules_are_saved_without_pickle():
    module, other = torch.nn.Linear(2, 3), torch.nn.Linear(2, 3)
    data = TorchShim(module).to_bytes()
    assert torch.equal(load(data)["weight"], module.weight)  # safetensors alone
    TorchShim(other).from_bytes(data)
    assert torch.equal(other.weight, module.weight)
    with pytest.raises(ValueError, match=r"EL010.*size mismatch"):
        TorchShim(torch.nn.Linear(2, 4)).from_bytes(data)
    for spoiled in (data[:-3], pickle.dumps(module.state_dict())):
        with pytest.raises(ValueError, match="EL010"):
            TorchShim(other).from_bytes(spoiled)


def test_copies_have_optimizer_state_of_their_own():
    nlp = trained(frozen=False)
    model = nlp.get_pipe("elmo").model
    copied = model.copy()
    a, b = model.layers[0].shims[0], copied.layers[0].shims[0]
    assert a.id != b.id
    assert all(
        torch.equal(x, y) for x, y in zip(a.bilm.parameters(), b.bilm.parameters())
    )
    assert all(
        x.data_ptr() != y.data_ptr()
        for x, y in zip(a.bilm.parameters(), b.bilm.parameters())
    )


def test_parameters_stay_the_same_tensors():
    nlp = pipeline(frozen=False)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    where = [p.data_ptr() for p in nlp.get_pipe("elmo").bilm.parameters()]
    for _ in range(2):
        nlp.update(batch, sgd=optimizer)
    assert where == [p.data_ptr() for p in nlp.get_pipe("elmo").bilm.parameters()]
