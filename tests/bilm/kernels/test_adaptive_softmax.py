"""The adaptive softmax of training in bfloat16 against the definition in float64."""

import pytest
import torch

from spacy_elmo.bilm.objectives import AdaptiveSoftmax

# Of the largest value: bfloat16 has 8 bits of mantissa.
TOLERANCE = 0.02


def definition(objective, h_NH, target_N, weight_N):
    """Log-probabilities and gradients by torch's own module, in float64."""
    exact = AdaptiveSoftmax(objective.width, objective.n_words, objective.cutoffs)
    exact.load_state_dict(objective.state_dict())
    exact = exact.double()
    h_NH = h_NH.double().requires_grad_()
    log_p_N = exact.clusters(h_NH, target_N).output
    (log_p_N * weight_N.double()).sum().backward()
    return log_p_N.detach(), h_NH.grad, [p.grad for p in exact.parameters()]


def close(found, expected):
    return (found - expected).abs().max() <= TOLERANCE * expected.abs().max()


@pytest.mark.parametrize("weights", ["a mean", "one each"])
@pytest.mark.parametrize("cutoffs", [[50], [50, 120]])
def test_values_and_gradients_are_those_of_the_definition(weights, cutoffs):
    torch.manual_seed(0)
    objective = AdaptiveSoftmax(32, 700, cutoffs)
    h_NH, target_N = torch.randn(300, 32), torch.randint(0, 700, (300,))
    weight_N = torch.rand(300) if weights == "one each" else torch.full((300,), -0.01)
    expected, by_h, by_weights = definition(objective, h_NH, target_N, weight_N)
    h_NH.requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        log_p_N = objective(h_NH, target_N)
    (log_p_N * weight_N).sum().backward()
    assert close(log_p_N.detach(), expected) and close(h_NH.grad, by_h)
    found = [p.grad for p in objective.parameters()]
    assert all(close(a, b) for a, b in zip(found, by_weights, strict=True))


def test_no_word_to_predict():
    """All streams of a part of a batch may stand at the end of a sentence."""
    objective = AdaptiveSoftmax(32, 700, [50])
    h_NH = torch.randn(0, 32).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        log_p_N = objective(h_NH, torch.zeros(0, dtype=torch.int64))
    log_p_N.sum().backward()
    assert h_NH.grad.shape == (0, 32)
    assert not any(p.grad.any() for p in objective.parameters())


def test_unlikely_targets_have_finite_log_probabilities():
    objective = AdaptiveSoftmax(16, 200, [20])
    torch.nn.init.normal_(objective.clusters.head.weight, std=30)
    h_NH = torch.randn(64, 16, generator=torch.Generator().manual_seed(0))
    target_N = torch.arange(64) % 20
    with torch.autocast("cpu", torch.bfloat16):
        log_p_N = objective(h_NH.requires_grad_(), target_N)
    exact = objective.clusters(h_NH, target_N).output
    assert exact.min() < -200 and close(log_p_N, exact)


def test_a_cluster_without_targets_gets_zeros():
    objective = AdaptiveSoftmax(16, 200, [20])
    h_NH = torch.randn(8, 16).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        objective(h_NH, torch.arange(8)).sum().backward()
    for parameter in objective.clusters.tail[0].parameters():
        assert parameter.grad is not None and not parameter.grad.any()
