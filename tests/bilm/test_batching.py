"""Vectors of a sentence depend on nothing but the sentence."""

import itertools
import random
import warnings

import numpy as np
import pytest
import spacy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.speed import on_threads
from spacy_elmo import models as shipped
from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.encode import batch_by_tokens, pack
from spacy_elmo.bilm.kernels.kernel import force
from spacy_elmo.bilm.steady_state import PASSES

from ..models import any_sentence, needs, sentences, tiny_config
from ..pipelines import add_elmo, with_weights

BILM = BiLM.random(tiny_config(cell_clip=3.0, proj_clip=3.0), seed=2)


@settings(max_examples=60, deadline=None)
@given(batch=sentences, history=st.lists(any_sentence, max_size=3), data=st.data())
def test_independent_of_batch_order_and_history(batch, history, data):
    alone = [BILM.encode([sentence])[0] for sentence in batch]
    order = data.draw(st.permutations(range(len(batch))))
    budget = data.draw(st.integers(1, 60))
    BILM.encode(history)
    together = BILM.encode([batch[i] for i in order], batch_tokens=budget)
    for i, found in zip(order, together):
        assert found.shape == alone[i].shape == (3, len(batch[i]), 12)
        assert np.array_equal(found, alone[i])


def test_each_sentence_is_given_as_it_is_computed():
    batch = [["word"] * n for n in (3, 0, 9, 4, 9, 1)]
    expected = BILM.encode(batch, batch_tokens=12)
    found = []
    for b, layers in BILM.encode_each(batch, batch_tokens=12):
        assert np.array_equal(layers, expected[b])
        found.append(b)
    assert found == [2, 4, 3, 0, 5, 1] and torch.is_grad_enabled()


@given(batch=sentences)
def test_packing_is_a_layout_of_the_same_words(batch):
    packed = pack(batch)
    assert sum(packed.batch_sizes) == sum(len(sentence) + 2 for sentence in batch)
    assert packed.batch_sizes == sorted(packed.batch_sizes, reverse=True)
    assert (packed.reversed_N[packed.reversed_N] == np.arange(len(packed.word_N))).all()
    for sentence, positions in zip(batch, packed.positions):
        assert [packed.words[i] for i in packed.word_N[positions]] == list(sentence)
    assert len(set(packed.words)) == len(packed.words)


@given(batch=sentences, budget=st.integers(1, 40))
def test_groups_hold_each_sentence_once_and_keep_the_budget(batch, budget):
    groups = list(batch_by_tokens(batch, budget))
    assert sorted(b for group in groups for b in group) == list(range(len(batch)))
    for group in groups:
        assert len(group) == 1 or sum(len(batch[b]) + 2 for b in group) <= budget


ODD = ["https://example.org/" + "x" * 60, "🙂" * 12, "ㅋ" * 40, "\u0301" * 30, "\ud800"]


@pytest.fixture(scope="module", params=shipped.MODELS.values())
def shipped_bilm(request):
    return BiLM.load(shipped.find(request.param))


@pytest.mark.parametrize(
    "sentence",
    [
        ["-"] * 64,
        ["buffalo"] * 200,
        ["o" * (1 + i % 7) for i in range(40)],
        ["A", "table", ":", *["-"] * 40, "and", "so", "on"],
        ["=====", "X"] * 16,
    ],
    ids=["dashes", "word", "letters", "table", "two"],
)
def test_a_token_that_is_repeated_has_its_vectors_in_any_batch(shipped_bilm, sentence):
    """A biLM may multiply roundings with each step, so there must be none."""
    (alone,), (together, _) = (shipped_bilm.encode([sentence] * n) for n in (1, 2))
    assert np.array_equal(alone, together)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "half"])
@pytest.mark.parametrize("name", shipped.MODELS.values())
def test_another_batch_moves_no_bit(name, precision):
    """Of the models that ship, whatever a batch has beside a sentence."""
    needs(precision)
    bilm, rng = BiLM.load(shipped.find(name)), random.Random(0)
    bilm.set_precision(precision)
    words = [*bilm.vocab[3:20_000], *ODD * 700]
    for trial in range(3):
        lengths = [rng.choice([1, 2, 5, 12, 30]) for _ in range(24)]
        batch = [rng.choices(words, k=n) for n in lengths] + [[ODD[trial]] * 40]
        letters = [rng.choice("-=.*o1xX") for _ in range(12)]
        batch += [[a * rng.randint(1, 40) for _ in range(32)] for a in letters]
        for sentence, together in zip(batch, bilm.encode(batch)):
            bilm.token_cache.clear()
            assert np.array_equal(bilm.encode([sentence])[0], together)


@pytest.mark.parametrize("huge", ["token_encoder.char_embedding", "weight_p"])
def test_the_first_sentence_whose_vectors_are_not_finite_is_named(huge):
    """Weights that are finite, all of them, and large only where "~" is read, or in all
    of an LSTM's projections."""
    config = tiny_config(cell_clip=None, proj_clip=None, activation="relu")
    bilm = BiLM.random(config, seed=2)
    bilm.encode([["fine", "~"]])
    with torch.no_grad():
        for name, parameter in bilm.named_parameters():
            if name.endswith(huge):
                rows = parameter if huge == "weight_p" else parameter[ord("~") + 1]
                rows.copy_(torch.full_like(rows, 3e38))
            if "conv_weights" in name:
                parameter.abs_()
    texts = [["so", "fine"], ["it", "is", "~", "here"], ["fine", "too"]]
    if huge == "weight_p":
        with pytest.raises(ValueError, match="EL078"):
            bilm.encode(texts)
        return
    for n in (1, 4096):
        with pytest.raises(ValueError, match=r"EL078.*'it is ~ here'"):
            bilm.encode(texts, batch_tokens=n)
    assert np.isfinite(bilm.encode([texts[0], texts[2]])[0]).all()
    nlp = spacy.blank("xx")
    with_weights(add_elmo(nlp, sizes=config), bilm)
    with pytest.raises(ValueError, match=r"EL078.*'it is ~ here'"):
        list(nlp.pipe(map(" ".join, texts)))
    assert nlp("so fine").tensor.any()


def test_large_but_finite_vectors_are_given():
    """Their sum is infinite in float32, no one of them is."""
    bilm = BiLM.random(tiny_config(proj_clip=None), seed=2)
    with torch.no_grad():
        bilm.token_encoder.projection_weight.zero_()
        bilm.token_encoder.projection_bias.fill_(2e38)
    layers = bilm.encode([["a", "b", "c"]])[0]
    assert (layers[0] == np.float32(2e38)).all() and np.isfinite(layers).all()


def test_nothing_and_empty_sentences(tiny):
    assert tiny.encode([]) == []
    assert [a.shape for a in tiny.encode([[], ["a"], []])] == [
        (3, 0, 12),
        (3, 1, 12),
        (3, 0, 12),
    ]


def test_boundary_start_is_where_empty_sentences_lead(tiny):
    state = None
    for _ in range(60):
        _, state = tiny.encode_stateful([[]], state)
    expected, _ = tiny.encode_stateful([["a", "b"]], state)
    (found,) = tiny.encode([["a", "b"]], start="boundary")
    assert abs(found - expected[0]).max() < 1e-6
    assert abs(found - tiny.encode([["a", "b"]])[0]).max() > 1e-4


def test_carried_state_goes_on_row_by_row(tiny):
    """Two calls with carried state: the same rows whatever order they are packed in."""
    first = [["a"], ["b", "c", "d"], [], ["b"]]
    second = [["e", "f", "g"], ["h"], ["a", "b"], []]
    _, state = tiny.encode_stateful(first)
    together, _ = tiny.encode_stateful(second, state)
    for row in range(4):
        _, state = tiny.encode_stateful([first[row]])
        alone, _ = tiny.encode_stateful([second[row]], state)
        assert np.array_equal(alone[0], together[row])


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("EL021", lambda bilm: bilm.encode([["a"]], start="warm")),
        ("EL025", lambda bilm: bilm.encode(["a sentence"])),
        ("EL025", lambda bilm: bilm.encode("a sentence")),
        ("EL025", lambda bilm: bilm.encode([["a", None]])),
        ("EL025", lambda bilm: bilm.encode(None)),
        ("EL025", lambda bilm: bilm.encode(itertools.repeat(["a"]))),
        ("EL026", lambda bilm: bilm.encode([["a"]], batch_tokens=0)),
    ],
)
def test_wrong_calls(tiny, code, call):
    with pytest.raises(ValueError, match=code):
        call(tiny)


def test_words_that_do_not_fit_the_embedding():
    with pytest.raises(ValueError, match=r"EL020.*n_words is 3.*5 words"):
        BiLM.random(tiny_config(n_words=3), vocab=list("abcde"))


def test_long_sentence(tiny):
    (found,) = tiny.encode([["word"] * 5_000], batch_tokens=100)
    assert found.shape == (3, 5_000, 12) and np.isfinite(found).all()


@pytest.mark.parametrize("instructions", ["chosen", "none"])
@pytest.mark.parametrize("precision", ["float32", "half"])
@given(st.integers(0, 1000))
@settings(deadline=None, max_examples=4)
def test_exact_to_the_bit_in_any_batch(precision, instructions, seed):
    """With the library and without, on any number of threads, for sizes that fill no
    vector."""
    forced = {} if instructions == "chosen" else {"instructions": instructions}
    config = tiny_config(
        hidden_dim=29, projection_dim=17, filters=((1, 7), (2, 16), (3, 31))
    )
    rng = random.Random(seed)
    words = ["a", "word", "고양이가", "x" * 30, "."]
    sentences = [rng.choices(words, k=rng.randint(1, 40)) for _ in range(30)]
    with force(**forced):
        needs(precision)
        bilm = BiLM.random(config, seed=seed).set_precision(precision)
        together = bilm.encode(sentences)
        order = rng.sample(range(30), 30)
        for size in (1, 3, rng.randint(2, 29)):
            bilm.token_cache.clear()
            for start in range(0, 30, size):
                some = order[start : start + size]
                with on_threads(1 + size % 3):
                    read = bilm.encode([sentences[i] for i in some])
                for i, found in zip(some, read):
                    assert np.array_equal(found, together[i])


def test_set_exact_says_that_it_does_nothing():
    bilm = BiLM.random(tiny_config(), seed=1)
    with pytest.warns(DeprecationWarning, match="ELW57") as warned:
        assert bilm.set_exact(True) is bilm
    assert warned[0].filename == __file__


def passes_of(bilm, sentences, **settings):
    """Return how many batches a call of encode reads."""
    passes = []
    hook = bilm.register_forward_hook(lambda *_: passes.append(1))
    try:
        bilm.encode(sentences, start="boundary", **settings)
    finally:
        hook.remove()
    return len(passes)


def test_boundary_start_is_reached_once_a_call():
    """Not for every group of sentences, and in fewer passes than the most."""
    bilm = BiLM.random(tiny_config(), seed=1)
    once = passes_of(bilm, [["a"]])
    assert once < PASSES / 2
    sentences = [["a"], ["b", "c"], ["d"]] * 5
    assert passes_of(bilm, sentences, batch_tokens=1) == once - 1 + len(sentences)
    assert passes_of(bilm, []) == 0


def test_boundary_start_of_the_published_sizes_is_reached():
    bilm = BiLM.random(BiLMConfig(hidden_dim=256, projection_dim=64), seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert passes_of(bilm, [["a"]]) <= PASSES


def test_boundary_start_of_cells_that_grow_for_ever():
    bilm = BiLM.random(tiny_config(cell_clip=None), seed=1)
    with torch.no_grad():
        for layer in bilm.forward_lstm.layers:
            layer.bias.chunk(4)[1].fill_(9)  # takes everything in
            layer.bias.chunk(4)[2].fill_(9)  # forgets nothing
            layer.bias.chunk(4)[3].fill_(9)
    with pytest.warns(UserWarning, match=r"ELW51.*200 passes.*zeros") as warned:
        (found,) = bilm.encode([["a"]], start="boundary")
    assert np.isfinite(found).all() and warned[0].filename == __file__


def test_exact_for_the_longest_words():
    """Words that fill all characters, alone and beside any number of others."""
    bilm = BiLM.random(tiny_config())
    words = [f"{n}" + "https://example.org/" * 3 for n in range(23)]
    words += ["고양이" * 6, "👩‍🚀" * 5, "x" * 44, "x" * 47, "x" * 48]
    together = bilm.encode([[word] for word in words])
    for word, expected in zip(words, together):
        bilm.token_cache.clear()
        assert np.array_equal(bilm.encode([[word]])[0], expected)
