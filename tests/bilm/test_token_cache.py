"""The cache of token vectors: the same vectors, no more memory, never stale."""

import copy
import multiprocessing
import os
import pickle
import threading
import weakref

import numpy as np
import psutil
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_elmo import BiLM
from spacy_elmo.bilm.token_cache import TokenCache

from ..models import any_token, tiny_config

WORDS = [f"w{i}" for i in range(9)]


def counted(bilm):
    """Words whose vectors are computed, as they are."""
    computed, real = [], bilm.compute_token_vectors

    def compute(words):
        computed.extend(words)
        return real(words)

    bilm.compute_token_vectors = compute
    return computed


@settings(max_examples=50, deadline=None)
@given(
    batches=st.lists(st.lists(any_token, max_size=9, unique=True), max_size=9),
    size=st.integers(0, 7),
)
def test_vectors_are_those_without_it(batches, size):
    bilm, plain = BiLM.random(tiny_config()), BiLM.random(tiny_config())
    bilm.token_cache, plain.token_cache = TokenCache(size), TokenCache(0)
    with torch.no_grad():
        for words in filter(None, batches):
            found = bilm.token_vectors(words)
            assert torch.allclose(found, plain.token_vectors(words), atol=1e-6)
            assert len(bilm.token_cache) <= size


@settings(max_examples=50, deadline=None)
@given(
    batches=st.lists(
        st.lists(st.sampled_from(WORDS), min_size=1, unique=True), max_size=12
    ),
    size=st.integers(1, 9),
)
def test_what_was_not_used_for_longest_goes_first(batches, size):
    """Against a list that every word of a batch moves to the end of."""
    bilm, recent = BiLM.random(tiny_config()), []
    bilm.token_cache = TokenCache(size)
    computed = counted(bilm)
    with torch.no_grad():
        for words in batches:
            computed.clear()
            bilm.token_vectors(words)
            assert computed == [word for word in words if word not in recent]
            hits = [word for word in words if word in recent]
            recent = [word for word in recent if word not in hits] + hits + computed
            recent = recent[-size:]
            assert bilm.token_cache.words == recent


@pytest.mark.parametrize(
    "change",
    [
        lambda bilm: bilm.token_encoder.projection_bias.add_(1),
        lambda bilm: bilm.load_state_dict(
            BiLM.random(tiny_config(), seed=3).state_dict()
        ),
        lambda bilm: bilm.double(),
    ],
    ids=["in place", "loaded", "of another type"],
)
def test_changed_weights_empty_it(change):
    bilm = BiLM.random(tiny_config())
    with torch.no_grad():
        before = bilm.token_vectors(WORDS)
        change(bilm)
        found = bilm.token_vectors(WORDS)
        expected = bilm.compute_token_vectors(WORDS)
    assert torch.equal(found, expected)
    assert found.dtype != before.dtype or not torch.equal(found, before)


def test_one_step_of_training_empties_it():
    bilm = BiLM.random(tiny_config())
    optimizer = torch.optim.SGD(bilm.parameters(), lr=0.1)
    with torch.no_grad():
        bilm.token_vectors(WORDS)
    bilm.token_vectors(WORDS).sum().backward()  # with gradients: not from the cache
    optimizer.step()
    with torch.no_grad():
        expected = bilm.compute_token_vectors(WORDS)
        assert torch.equal(bilm.token_vectors(WORDS), expected)


def test_other_words_of_an_embedding_empty_it():
    bilm = BiLM.random(tiny_config(n_words=3), vocab=["<UNK>", "a", "b"])
    a, b = bilm.encode([["a"], ["b"]])
    bilm.vocab = ["<UNK>", "b", "a"]
    assert np.array_equal(bilm.encode([["a"]])[0], b)
    assert np.array_equal(bilm.encode([["b"]])[0], a)


def test_a_word_is_computed_once():
    bilm = BiLM.random(tiny_config())
    computed = counted(bilm)
    for _ in range(3):
        bilm.encode([["a", "b", "a"] * 1000, ["b", "c"]])
    assert sorted(computed) == ["</S>", "<S>", "a", "b", "c"]


def test_more_words_than_fit_at_once():
    bilm = BiLM.random(tiny_config())
    bilm.token_cache = TokenCache(4)
    words = [f"w{i}" for i in range(50_000)]
    with torch.no_grad():
        found = bilm.token_vectors(words)
        assert torch.allclose(found[:3], bilm.compute_token_vectors(words[:3]))
    assert bilm.token_cache.words == words[-4:]


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda b: pickle.loads(pickle.dumps(b))]
)
def test_copies_begin_empty(duplicate):
    bilm = BiLM.random(tiny_config())
    bilm.token_cache = TokenCache(7)
    bilm.encode([WORDS])
    copied = duplicate(bilm)
    assert len(copied.token_cache) == 0 and copied.token_cache.size == 7
    expected = bilm.encode([WORDS])[0]  # of fewer words at once, the rest being kept
    assert np.allclose(copied.encode([WORDS])[0], expected, atol=1e-6)


def test_it_goes_with_its_model():
    bilm = BiLM.random(tiny_config())
    bilm.encode([WORDS])
    vectors = weakref.ref(bilm.token_cache)
    del bilm
    assert vectors() is None


def test_many_threads_at_once():
    """On a cache that is too small for them, so that rows change hands all the time."""
    bilm, plain = BiLM.random(tiny_config()), BiLM.random(tiny_config())
    bilm.token_cache, plain.token_cache = TokenCache(20), TokenCache(0)
    texts = [[[f"w{(7 * i + j) % 40}" for j in range(9)]] for i in range(8)]
    expected = [plain.encode(text)[0] for text in texts]
    wrong = []

    def work(n):
        for _ in range(40):
            if not np.allclose(bilm.encode(texts[n])[0], expected[n], atol=1e-5):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(bilm.token_cache) == 20


def test_a_million_distinct_words_take_no_more_memory():
    cache, encoder = TokenCache(1000), torch.nn.Linear(1, 1)
    process = psutil.Process()

    def compute(words):
        return torch.full((len(words), 4), float(len(words)))

    step = 20_000
    for start in range(0, 1_000_000, step):
        words = list(map(str, range(start, start + step)))
        assert cache.vectors(words, encoder, compute).shape == (step, 4)
        if start == step:
            before = process.memory_info().rss
    assert len(cache) == 1000
    assert process.memory_info().rss - before < 32 << 20


def test_a_word_without_end_is_not_kept():
    """Texts of strangers would fill the memory with them."""
    bilm = BiLM.random(tiny_config())
    words = ["a", "x" * 10_000, "b", "y" * 10_000]
    with torch.no_grad():
        first, again = bilm.token_vectors(words), bilm.token_vectors(words)
    assert torch.equal(first, again)
    assert bilm.token_cache.words == ["a", "b"]


def test_a_word_a_hundred_thousand_times_is_computed_once():
    bilm = BiLM.random(tiny_config())
    computed = counted(bilm)
    sentence = ["고양이"] * 100
    alone = bilm.encode([sentence])[0]
    encoded = bilm.encode([sentence] * 999, batch_tokens=20_000)
    assert sorted(computed) == ["</S>", "<S>", "고양이"]
    assert all(abs(array - alone).max() < 1e-6 for array in encoded)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system can't fork")
def test_a_fork_begins_with_the_words_of_its_parent(tiny):
    """They are not computed again in each process of `nlp.pipe`."""
    tiny.encode([["a", "b"]])
    context = multiprocessing.get_context("fork")
    results = context.Queue()

    def encode():
        tiny.encode([["a", "c"]])
        results.put(tiny.token_cache.words)

    process = context.Process(target=encode)
    process.start()
    assert set(results.get(timeout=60)) == {"<S>", "a", "b", "c", "</S>"}
    process.join(30)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system can't fork")
def test_a_fork_does_not_wait_for_a_thread_that_it_does_not_have(tiny):
    """The thread stands still inside the cache when the process forks."""
    inside, leave = threading.Event(), threading.Event()

    class Word(str):
        __slots__ = ()

        def __hash__(self):
            inside.set()
            leave.wait(60)
            return super().__hash__()

    cache, encoder = tiny.token_cache, tiny.token_encoder
    arguments = ([Word("a")], encoder, tiny.compute_token_vectors)
    thread = threading.Thread(target=cache.vectors, args=arguments)
    thread.start()
    assert inside.wait(60)
    context = multiprocessing.get_context("fork")
    process = context.Process(target=tiny.encode, args=([["a", "b"]],))
    process.start()
    process.join(30)
    ended = process.exitcode
    process.kill()
    leave.set()
    thread.join()
    assert ended == 0


@pytest.mark.parametrize("sizes", [(4, 40), (40, 4)])
def test_a_size_that_is_set_later(sizes, tiny):
    expected = [layers.copy() for layers in tiny.encode([[f"w{n}"] for n in range(50)])]
    tiny.token_cache.clear()
    for size in sizes:
        tiny.token_cache.size = size
        for n in range(50):
            assert np.allclose(tiny.encode([[f"w{n}"]])[0], expected[n], atol=1e-6)
