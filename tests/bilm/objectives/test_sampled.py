"""The sampled softmax against a plain one of loops, and against the full one."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_elmo.bilm.objectives.sampled import SampledSoftmax, sample_log_uniform
from spacy_elmo.machine import transfer

V, H, S = 30, 5, 9


def make(seed=0, n_words=V, samples=S):
    torch.manual_seed(seed)
    softmax = SampledSoftmax(H, n_words, samples)
    torch.nn.init.normal_(softmax.bias)
    return softmax.train()


def inputs(n, seed=0, n_words=V):
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(n, H, generator=generator).requires_grad_()
    return h, torch.randint(n_words, (n,), generator=generator)


def plain(softmax, h, target, sampled, n_draws):
    """The published estimate, one prediction and one word at a time."""
    n_words = len(softmax.weight)

    def logit(row, word):
        p = math.log((word + 2) / (word + 1)) / math.log(n_words + 1)
        expected = 1 - (1 - p) ** n_draws
        dot = (row * softmax.weight[word]).sum()
        return dot + softmax.bias[word] - math.log(expected)

    found = []
    for row, true in zip(h, target.tolist()):
        others = [w for w in sampled if w != true]  # accidental hits left out
        logits = torch.stack([logit(row, true), *(logit(row, w) for w in others)])
        found.append(torch.log_softmax(logits, 0)[0])
    return torch.stack(found)


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 12), seed=st.integers(0, 99), chunk=st.sampled_from([1, 1000]))
def test_equals_the_plain_estimate_with_its_gradients(n, seed, chunk):
    softmax, (h, target) = make(seed), inputs(n, seed)
    softmax.begin_step(seed, 3, target.numpy())
    sampled = softmax.sampled_S.tolist()
    before = transfer.CPU_BATCH_LIMITS
    transfer.CPU_BATCH_LIMITS = before._replace(logits=chunk)  # in one piece or many
    try:
        found = softmax(h, target)
        expected = plain(softmax, h, target, sampled, softmax.n_draws)
        assert torch.allclose(found, expected, atol=1e-5)
        leaves = (h, softmax.weight, softmax.bias)
        weights = torch.linspace(0.5, 1.5, n)
        ours, theirs = (
            torch.autograd.grad((log_p * weights).sum(), leaves)
            for log_p in (found, expected)
        )
    finally:
        transfer.CPU_BATCH_LIMITS = before
    for a, b in zip(ours, theirs):
        assert torch.allclose(a.to_dense(), b, atol=1e-5)
    used = set(sampled) | set(target.tolist())
    assert set(ours[1].coalesce().indices()[0].tolist()) == used


def test_held_out_text_is_judged_by_the_full_softmax():
    softmax, (h, target) = make().eval(), inputs(7)
    expected = torch.log_softmax(h @ softmax.weight.t() + softmax.bias, 1)
    found = softmax(h, target)
    assert torch.allclose(found, expected[range(7), target], atol=1e-5)


def test_its_gradient_tends_to_the_full_one():
    """Averaged over many samples; the estimate of one is far from it."""
    softmax, (h, target) = make(n_words=400, samples=60), inputs(20, n_words=400)

    def gradient():
        (found,) = torch.autograd.grad(softmax(h, target).sum(), h)
        return found

    softmax.eval()
    full = gradient()
    softmax.train()
    gradients = []
    for step in range(400):
        softmax.begin_step(1, step, target.numpy())
        gradients.append(gradient())
    error = (torch.stack(gradients).mean(0) - full).norm() / full.norm()
    one = (gradients[0] - full).norm() / full.norm()
    assert error < 0.2 and error < one / 3


@settings(max_examples=40, deadline=None)
@given(
    n_words=st.integers(2, 3000), share=st.floats(0.01, 0.99), seed=st.integers(0, 9)
)
def test_samples_are_distinct_words(n_words, share, seed):
    n = max(1, min(n_words - 1, int(share * n_words)))
    sampled, draws = sample_log_uniform(np.random.default_rng(seed), n_words, n)
    assert len(set(sampled.tolist())) == len(sampled) == n <= draws
    assert sampled.min() >= 0 and sampled.max() < n_words


def test_sampling_is_log_uniform():
    """How often a word is in a sample, against what the correction takes it for."""
    softmax, n = make(n_words=200, samples=20), 3000
    counts, draws = np.zeros(200), Counter()
    expected = torch.zeros(200)
    for step in range(n):
        softmax.begin_step(5, step, np.array([0]))
        counts[softmax.sampled_S.numpy()] += 1
        draws[softmax.n_draws] += 1
    for softmax.n_draws, times in draws.items():
        expected += times * softmax.log_expected(torch.arange(200)).exp()
    # The expectation is that of drawing so often in any case, not of having stopped.
    assert np.allclose(counts / n, expected.numpy() / n, atol=0.03)


def test_a_step_follows_from_its_number():
    one, other = make(), make()
    draws = []
    for softmax, steps in ((one, (4, 5)), (other, (5,))):
        for step in steps:
            softmax.begin_step(7, step, np.array([1, 2]))
        draws.append(softmax.sampled_S.tolist())
    assert draws[0] == draws[1]
    one.begin_step(7, 6, np.array([1, 2]))
    assert one.sampled_S.tolist() != draws[0]


def test_more_samples_than_words():
    with pytest.raises(ValueError, match="EL045"):
        SampledSoftmax(4, 20, 20)
