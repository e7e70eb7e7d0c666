"""Where our shim differs from Thinc's."""

import numpy as np
import torch
from spacy.util import fix_random_seed

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
