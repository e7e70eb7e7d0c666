"""The joint objective and the perplexity of held-out text, against plain sums."""

import math

import pytest
import torch

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.objectives import SampledSoftmax
from spacy_elmo.bilm.objectives.adaptive import adaptive_softmax
from spacy_elmo.pretrain import perplexity
from spacy_elmo.pretrain.evaluation import Spelling
from spacy_elmo.pretrain.model import LanguageModel, on_device
from spacy_elmo.text.corpus import BOS_ID, EOS_ID, SPECIALS, build_corpus
from spacy_elmo.text.streams import Streams

from ..models import tiny_config
from .runs import TEXT

CPU = torch.device("cpu")


def language_model(cutoffs=(), seed=0):
    corpus = build_corpus(TEXT, vocab_size=9)
    bilm = BiLM.random(tiny_config(), seed=seed, vocab=corpus.vocab)
    torch.manual_seed(seed)
    softmax = adaptive_softmax(list(cutoffs))(
        bilm.config.projection_dim, len(corpus.vocab)
    )
    return LanguageModel(bilm, softmax).eval(), corpus


def by_direction(log_p_P, batch):
    return log_p_P.split([len(batch.forward.target_P), len(batch.backward.target_P)])


def straightforward(model, corpus):
    """Losses of both directions, the whole text as one stream: every prediction from
    the row of the softmax over the vocabulary."""
    losses = []
    for stack, text, first in (
        (model.bilm.forward_lstm, corpus.forward, BOS_ID),
        (model.bilm.backward_lstm, corpus.backward, EOS_ID),
    ):
        ids = text.read(0, len(text))
        words = [corpus.words[i] for i in ids[:-1]]
        x = model.bilm.token_vectors(words)
        layers, _ = stack(x, [1] * len(words), model.bilm.zero_state(1)[0])
        log_p = torch.log_softmax(
            layers[-1] @ model.softmax.weight.t() + model.softmax.bias, dim=1
        )
        targets = [2 if t >= len(corpus.vocab) else int(t) for t in ids[1:]]
        losses.append([-float(p[t]) for p, t in zip(log_p, targets) if t != first])
    return losses


@pytest.mark.parametrize("steps", [1, 4, 1000])
def test_perplexity_is_that_of_the_whole_text_however_it_is_unrolled(steps):
    model, corpus = language_model()
    with torch.no_grad():
        ahead, back = straightforward(model, corpus)
    found = perplexity(model, corpus, batch_size=1, unroll_steps=steps)
    assert found.forward == pytest.approx(math.exp(sum(ahead) / len(ahead)), rel=1e-4)
    assert found.backward == pytest.approx(math.exp(sum(back) / len(back)), rel=1e-4)
    both = ahead + back
    assert found.mean == pytest.approx(math.exp(sum(both) / len(both)), rel=1e-4)
    assert found.tokens == sum(len(sentence) for sentence in TEXT)
    assert 0 < found.coverage < 1


@pytest.mark.parametrize("training", [True, False])
def test_model_is_in_its_mode_again_when_a_batch_fails(training):
    model, corpus = language_model()
    model.train(training)

    def fail(*inputs):
        assert not model.training
        raise MemoryError

    handle = model.softmax.register_forward_pre_hook(fail)
    with pytest.raises(MemoryError):
        perplexity(model, corpus)
    assert model.training == model.bilm.training == training
    handle.remove()
    perplexity(model, corpus)
    assert model.training == training


def test_bits_per_character_charge_for_unknown_words():
    model, corpus = language_model()
    with torch.no_grad():
        ahead, back = straightforward(model, corpus)
    bits = (sum(ahead) + sum(back)) / 2 / math.log(2)
    words = [word for sentence in TEXT for word in sentence]
    unknown = [word for word in words if word not in corpus.vocab]
    assert unknown
    spelling = Spelling(corpus.vocab)
    spelled = sum(spelling.bits(word) for word in unknown)
    characters = sum(len(word) + 1 for word in words) + len(TEXT)
    found = perplexity(model, corpus, batch_size=1)
    assert found.spelling_bits == pytest.approx(spelled / characters, rel=1e-6)
    expected = (bits + spelled) / characters
    assert found.bits_per_character == pytest.approx(expected, rel=1e-4)


def test_spelling_is_a_distribution_over_words():
    """Of words over two letters up to a length, with what is longer counted as well."""
    spelling = Spelling([*SPECIALS, "ab", "a", "가"])
    alone = 2 ** -spelling.bits("a") + 2 ** -spelling.bits("b")
    assert alone < 1 and spelling.bits("ab") < spelling.bits("ba")
    rows = 2.0**-spelling.bits_of_pairs
    assert torch.allclose(torch.tensor(rows.sum(1)), torch.ones(257).double())
    assert spelling.bits("") > 0 and math.isfinite(spelling.bits("\ud800x" * 9))


def test_joint_gradient_is_the_sum_over_directions():
    model, corpus = language_model()
    batch = on_device(Streams(corpus, model.bilm, 4, 6).batch(0), CPU)
    grads = []
    for pick in ([0, 1], [0], [1]):
        model.zero_grad()
        log_p_P, _ = model(batch, model.bilm.zero_state(4))
        log_ps = by_direction(log_p_P, batch)
        sum(-log_ps[d].sum() for d in pick).backward()
        grads.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
        if pick == [0]:
            assert model.bilm.backward_lstm.layers[0].bias.grad.abs().max() == 0
    both, ahead, back = grads
    assert all(
        torch.allclose(b, x + y, atol=1e-4) for b, x, y in zip(both, ahead, back)
    )


def test_state_is_carried_from_batch_to_batch():
    """Two windows in turn are one of both."""
    model, corpus = language_model()
    short, long = (Streams(corpus, model.bilm, 3, steps) for steps in (4, 8))
    with torch.no_grad():
        whole, _ = model(on_device(long.batch(0), CPU), model.bilm.zero_state(3))
        state, parts = model.bilm.zero_state(3), []
        for number in (0, 1):
            batch = on_device(short.batch(number), CPU)
            found, state = model(batch, state)
            parts.append(by_direction(found, batch))
    whole = by_direction(whole, on_device(long.batch(0), CPU))
    for direction in (0, 1):
        joined = torch.cat([part[direction] for part in parts])
        assert torch.allclose(joined, whole[direction], atol=1e-6)


def test_a_model_trained_on_samples_is_saved_and_loaded(tmp_path):
    model, corpus = language_model()
    torch.manual_seed(1)
    model.softmax = SampledSoftmax(model.bilm.config.projection_dim, 9, 4)
    model.bilm.save(tmp_path, softmax=model.softmax)
    loaded = LanguageModel.load(tmp_path)
    assert perplexity(loaded, corpus) == perplexity(model, corpus)
    assert loaded.softmax.describe() == "sampled softmax, 4 samples"


@pytest.mark.parametrize("objective", ["full", "adaptive", "sampled"])
def test_low_precision_is_near(objective):
    """Products in bfloat16; the state and sums stay float32."""
    model, corpus = language_model([4] if objective == "adaptive" else ())
    batch = on_device(Streams(corpus, model.bilm, 4, 6).batch(0), CPU)
    if objective == "sampled":
        softmax = SampledSoftmax(model.bilm.config.projection_dim, 9, 6).train()
        softmax.load_state_dict(model.softmax.state_dict())
        targets = torch.cat([batch.forward.target_P, batch.backward.target_P])
        softmax.begin_step(0, 0, targets.unique().numpy())
        model.softmax = softmax
    state = model.bilm.zero_state(4)
    exact, _ = model(batch, state)
    with torch.autocast("cpu", torch.bfloat16):
        low, carried = model(batch, state)
    assert carried[0].h.dtype == torch.float32 == low.dtype
    difference = (low - exact).abs()
    assert 0 < difference.max() < 0.1 and difference.mean() < 0.02


@pytest.mark.parametrize("word_dim", [0, 6])
def test_words_in_parts_by_length_are_read_alike(word_dim, monkeypatch):
    """As a GPU reads them: losses and gradients are those of all words together."""
    text = [[word * n for word in sentence] for n in (1, 2, 9) for sentence in TEXT]
    corpus = build_corpus(text, vocab_size=20)
    words = {"word_dim": word_dim, "n_words": len(corpus.vocab)} if word_dim else {}
    bilm = BiLM.random(tiny_config(**words), vocab=corpus.vocab)
    softmax = adaptive_softmax([])(bilm.config.projection_dim, len(corpus.vocab))
    model = LanguageModel(bilm, softmax).eval()
    whole = Streams(corpus, bilm, 4, 12).batch(1)
    with monkeypatch.context() as patch:
        patch.setattr(BiLM, "device", torch.device("cuda"))
        parts = Streams(corpus, bilm, 4, 12).batch(1)
    assert (whole.n_parts, parts.n_parts) == (1, 3)
    widths = [array.shape[1] for array in parts.token_ids[:3]]
    assert widths[0] < widths[2] == whole.token_ids[0].shape[1]
    found = []
    for batch in (whole, parts):
        model.zero_grad()
        log_p_P, _ = model(on_device(batch, CPU), bilm.zero_state(4))
        log_p_P.sum().backward()
        gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        found.append((log_p_P.detach(), torch.cat(gradients)))
    for ours, expected in zip(*found, strict=True):
        torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-4)
