"""Token vectors kept in a file: the same vectors, of these weights alone."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from spacy_elmo import BiLM
from spacy_elmo.bilm import vocab_cache
from spacy_elmo.bilm.files.own import VOCAB_CACHE
from spacy_elmo.bilm.token_cache import TokenCache

from ..models import any_token, tiny_config

SENTENCES = [["the", "cat", "고양이"], ["a", "the", "\ud800"], []]
WORDS = ["the", "cat", "\ud800", "not there"]


@pytest.fixture
def folder(tmp_path):
    bilm = BiLM.random(tiny_config(), seed=3)
    bilm.save(tmp_path)
    assert vocab_cache.make(bilm, [*WORDS, "the"], tmp_path) == 4
    return tmp_path


def counted(bilm):
    computed, real = [], bilm.compute_token_vectors
    bilm.compute_token_vectors = lambda words: (computed.extend(words), real(words))[1]
    return computed


@pytest.mark.parametrize("size", [0, 1, 100])
def test_known_words_are_not_computed_and_others_are(folder, size):
    bilm, plain = BiLM.load(folder), BiLM.load(folder, use_vocab_cache=False)
    words, vectors = bilm.token_cache.fixed(bilm.token_encoder)
    bilm.token_cache = TokenCache(size)
    bilm.token_cache.fix(words, vectors, bilm.token_encoder)
    computed = counted(bilm)
    for _ in range(2):
        for a, b in zip(bilm.encode(SENTENCES), plain.encode(SENTENCES), strict=True):
            assert a == pytest.approx(b, abs=1e-6)
        bilm.token_cache.clear()  # they stay
    assert set(computed) == {"a", "고양이", "<S>", "</S>"}
    assert len(bilm.token_cache) == 0


@settings(max_examples=30, deadline=None)
@given(words=st.lists(any_token, min_size=1, max_size=20), data=st.data())
def test_any_words_come_back(tmp_path_factory, words, data):
    folder = tmp_path_factory.mktemp("cache")
    bilm = BiLM.random(tiny_config())
    bilm.token_cache = TokenCache(data.draw(st.integers(0, 5)))
    n = vocab_cache.make(bilm, words, folder)
    vocab_cache.attach(bilm, (folder / VOCAB_CACHE).read_bytes(), folder)
    assert list(bilm.token_cache._fixed) == list(dict.fromkeys(words)) and n <= 20
    others = data.draw(st.lists(any_token, max_size=9))
    asked = list(dict.fromkeys([*others, "new", *words]))
    with torch.no_grad():
        for _ in range(2):
            found = bilm.token_vectors(asked)
            expected = bilm.compute_token_vectors(asked)
            assert torch.allclose(found, expected, atol=1e-6)


def test_it_goes_when_the_weights_change(folder):
    bilm = BiLM.load(folder)
    with torch.no_grad():
        bilm.token_encoder.projection_bias.add_(1)
    assert bilm.token_cache.fixed(bilm.token_encoder) is None
    plain = BiLM.load(folder, use_vocab_cache=False)
    with torch.no_grad():
        plain.token_encoder.projection_bias.add_(1)
    for a, b in zip(bilm.encode(SENTENCES), plain.encode(SENTENCES), strict=True):
        assert np.array_equal(a, b)
    bilm.save(folder)
    assert not (folder / VOCAB_CACHE).exists()


def test_of_other_weights_it_is_refused(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    BiLM.random(tiny_config(), seed=4).save(other)
    (other / VOCAB_CACHE).write_bytes((folder / VOCAB_CACHE).read_bytes())
    with pytest.raises(ValueError, match=r"EL078.*vocab-cache"):
        BiLM.load(other)


DAMAGES = {
    "nan": lambda a: a["vectors"].__setitem__((0, 0), float("nan")),
    "narrow": lambda a: a.update(vectors=a["vectors"][:, :2].contiguous()),
    "too few": lambda a: a.update(vectors=a["vectors"][:2].contiguous()),
    "lengths": lambda a: a["lengths"].__setitem__(0, 400),
    "negative": lambda a: a["lengths"].copy_(torch.tensor([-3, 9, 3, 3])),
    "not utf-8": lambda a: a["words"].__setitem__(0, 255),
    "twice": lambda a: a["words"][:6].copy_(torch.tensor(list(b"catcat"))),
    "half": lambda a: a.update(vectors=a["vectors"].half()),
    "missing": lambda a: a.pop("words"),
    "types": lambda a: a.update(lengths=torch.tensor([1.5])),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_refused(folder, damage):
    arrays = load_file(folder / VOCAB_CACHE)
    DAMAGES[damage](arrays)
    save_file(arrays, folder / VOCAB_CACHE)
    with pytest.raises(ValueError, match="EL079"):
        BiLM.load(folder)


def test_any_truncation_is_refused(folder):
    data = (folder / VOCAB_CACHE).read_bytes()
    for length in range(0, len(data), 37):
        (folder / VOCAB_CACHE).write_bytes(data[:length])
        with pytest.raises(ValueError, match="EL079"):
            BiLM.load(folder)
