"""Pipelines with a layer cache: the same to the bit, encoded once, never stale."""

import pickle
import warnings

import numpy as np
import pytest
import spacy
import torch

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.pipeline.cache import context_of
from spacy_elmo.pipeline.encoder import shim_of

from ..models import needs, tiny_config
from ..pipelines import add_elmo, examples, pipeline, with_weights

MB = 1 << 20
SIZES = tiny_config(
    hidden_dim=32, projection_dim=16, filters=((1, 16), (2, 16), (3, 32))
)


def alone():
    """A pipeline of `elmo` and nothing else."""
    nlp = spacy.blank("xx")
    add_elmo(nlp, sizes=SIZES)
    return nlp


def train(layer_cache, steps=12, **overrides):
    """Batches that change from epoch to epoch; returns the trained weights."""
    spacy.util.fix_random_seed(0)
    nlp = pipeline(seed=3, sizes=SIZES)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    elmo = nlp.get_pipe("elmo")
    elmo.use_layer_cache(layer_cache, **overrides)
    order = np.random.default_rng(5)
    losses = []
    for _ in range(steps):
        some = order.permutation(len(batch))[: order.integers(1, len(batch) + 1)]
        losses.append(nlp.update([batch[i] for i in some], sgd=optimizer))
        losses.append(nlp.evaluate(batch)["tag_acc"])
    weights = [
        component.model.to_bytes()
        for name, component in nlp.components
        if name != "elmo"
    ]
    return losses, weights, elmo


def test_training_is_the_same_to_the_bit(tmp_path):
    without = train(None)
    in_memory = train("memory")
    on_disk = train(tmp_path / "layers")
    again = train(tmp_path / "layers")
    for losses, weights, elmo in (in_memory, on_disk, again):
        assert losses == without[0] and weights == without[1]
        assert elmo.layer_cache.hits > 50
    # Each sentence was computed once, and in the second run none was.
    assert in_memory[2].layer_cache.misses == on_disk[2].layer_cache.misses == 3
    assert again[2].layer_cache.misses == 0


def test_initialize_takes_it_from_the_configuration(tmp_path):
    nlp = pipeline()
    path = tmp_path / "layers"
    nlp.config["initialize"]["components"] = {
        "elmo": {"layer_cache": str(path), "layer_cache_mb": 100}
    }
    nlp.initialize(lambda: examples(nlp))
    cache = nlp.get_pipe("elmo").layer_cache
    assert cache.path == path and cache.max_bytes == 100 * MB
    nlp("Some words")
    assert path.exists() and cache.misses > 0
    # It is of the training run, and does not go with the pipeline.
    nlp.to_disk(tmp_path / "pipeline")
    assert spacy.load(tmp_path / "pipeline").get_pipe("elmo").layer_cache is None
    with pytest.raises(ValueError, match="EL088"):
        pipeline(frozen=False).get_pipe("elmo").use_layer_cache("memory")


def test_never_of_other_weights(tmp_path):
    path = tmp_path / "layers"
    nlp = alone()
    elmo = nlp.get_pipe("elmo")
    elmo.use_layer_cache(path)
    before = nlp("She hates Paris").tensor
    other = BiLM.random(SIZES, seed=9)
    expected = other.encode([["She", "hates", "Paris"]])[0].mean(0)
    with_weights(elmo, other)
    elmo.use_layer_cache(path)
    with pytest.warns(UserWarning, match="ELW08"):
        assert np.allclose(nlp("She hates Paris").tensor, expected, atol=1e-6)
    assert not np.allclose(before, expected)
    context = context_of(shim_of(elmo.model))
    with torch.no_grad():
        elmo.bilm.forward_lstm.layers[0].weight_h[0, 0] += 1
    assert context_of(shim_of(elmo.model)) != context
    with pytest.warns(UserWarning, match="ELW08"):
        nlp("She hates Paris")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nlp("She hates Paris")
    assert elmo.layer_cache.misses == 2


def test_never_of_another_precision():
    """Also if it is the biLM itself that was told."""
    needs("half")
    nlp = alone()
    elmo = nlp.get_pipe("elmo")
    elmo.use_layer_cache("memory")
    expected = nlp("She hates Paris").tensor
    elmo.bilm.set_precision("half")
    nlp("She hates Paris")
    assert elmo.layer_cache.hits == 0
    elmo.bilm.set_precision("float32")
    assert np.array_equal(nlp("She hates Paris").tensor, expected)


def test_white_space_long_and_empty_docs(tmp_path):
    nlp, plain = alone(), alone()
    before = len(pickle.dumps(nlp.get_pipe("elmo")))
    nlp.get_pipe("elmo").use_layer_cache(tmp_path / "layers")
    texts = ["", "  ", "a  b \n c", "x" * 10_000, "고양이가 잔다", "a b " * 300]
    for _ in range(2):
        for a, b in zip(nlp.pipe(texts), plain.pipe(texts)):
            assert np.array_equal(a._.elmo.layers, b._.elmo.layers)
    assert nlp.get_pipe("elmo").layer_cache.hits > 0
    # What it keeps of this process does not go with a pickle.
    assert len(pickle.dumps(nlp.get_pipe("elmo"))) < 1.2 * before


def test_second_epoch_computes_nothing(tmp_path, monkeypatch):
    nlp = alone()
    elmo = nlp.get_pipe("elmo")
    elmo.use_layer_cache(tmp_path / "layers")
    texts = [f"sentence number {n} of many" for n in range(50)]
    list(nlp.pipe(texts))
    monkeypatch.setattr(BiLM, "forward", None)  # would fail
    list(nlp.pipe(texts))
    assert elmo.layer_cache.misses == 50


def test_that_it_is_not_used_in_a_sourced_component_is_said(tmp_path):
    """What is sourced is not initialised, by `spacy train` neither."""
    pipeline(sizes=SIZES).to_disk(tmp_path)
    block = {"layer_cache": "memory"}
    callback = {"@callbacks": "spacy-elmo.UseLayerCache.v1", **block}
    for before_init in (None, callback):
        nlp = spacy.blank("xx")
        for name in ("elmo", "tagger", "ner"):
            nlp.add_pipe(name, source=spacy.load(tmp_path))
        nlp.config["initialize"]["components"] = {"elmo": block}
        nlp.config["initialize"]["before_init"] = before_init
        batch = examples(nlp)
        with nlp.select_pipes(disable=["elmo"]):
            optimizer = nlp.initialize(lambda batch=batch: batch)
        elmo = nlp.get_pipe("elmo")
        if before_init is None:
            with pytest.warns(
                UserWarning, match=r"ELW25.*\[initialize.components.elmo"
            ):
                nlp.update(batch, sgd=optimizer)
            assert elmo.layer_cache is None
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            nlp.update(batch, sgd=optimizer)
        if before_init is not None:
            assert elmo.layer_cache.hits > 0


def test_a_cache_of_before_init_stays_in_a_component_that_is_initialised():
    nlp = pipeline()
    callback = {"@callbacks": "spacy-elmo.UseLayerCache.v1"}
    nlp.config["initialize"]["before_init"] = callback
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    for _ in range(2):
        nlp.update(batch, sgd=optimizer)
    assert nlp.get_pipe("elmo").layer_cache.hits > 0
    nlp.config["initialize"]["before_init"] = {**callback, "name": "tagger"}
    with pytest.raises(ValueError, match=r"EL143.*'tagger'"):
        nlp.initialize(lambda: batch)


def test_that_it_is_given_up_in_fine_tuning_is_said():
    nlp = pipeline()
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    elmo = nlp.get_pipe("elmo")
    elmo.use_layer_cache("memory")
    nlp.update(batch, sgd=optimizer)
    elmo.frozen = False
    with pytest.warns(UserWarning, match=r"ELW24.*frozen = false"):
        nlp.update(batch, sgd=optimizer)
    assert elmo.layer_cache is None


def test_weights_that_change_while_they_are_read_leave_nothing_behind():
    """As another thread may change them: what came of both is not kept."""
    nlp = alone()
    elmo = nlp.get_pipe("elmo")
    elmo.use_layer_cache("memory")
    weight = elmo.bilm.forward_lstm.layers[0].weight_h
    real = elmo.bilm.forward

    def forward(*args):
        with torch.no_grad():
            weight[0, 0] += 1
        return real(*args)

    elmo.bilm.forward = forward
    nlp("She hates Paris")
    with torch.no_grad():
        weight[0, 0] -= 1
    del elmo.bilm.forward
    tensor = nlp("She hates Paris").tensor
    assert elmo.layer_cache.hits == 0
    expected = elmo.bilm.encode([["She", "hates", "Paris"]])[0].mean(0)
    assert np.allclose(tensor, expected, atol=1e-6)


def test_weights_that_are_the_same_again_after_they_changed():
    """From A to B and back to A while a sentence is read: written to, or replaced."""
    nlp = alone()
    elmo = nlp.get_pipe("elmo")
    bilm, other = elmo.bilm, BiLM.random(SIZES, seed=9)
    weight = bilm.forward_lstm.layers[0].weight_h
    real = bilm.forward
    kept = weight.detach().clone()

    def written_to(*args):
        with torch.no_grad():
            weight.copy_(other.forward_lstm.layers[0].weight_h)
            found = real(*args)
            weight.copy_(kept)
        return found

    def replaced(*args):
        with_weights(elmo, other)
        found = other.forward(*args)
        with_weights(elmo, bilm)
        return found

    expected = bilm.encode([["She", "hates", "Paris"]])[0].mean(0)
    for forward in (written_to, replaced):
        elmo.use_layer_cache("memory")
        bilm.forward = forward
        assert not np.allclose(nlp("She hates Paris").tensor, expected, atol=1e-3)
        del bilm.forward
        assert np.allclose(nlp("She hates Paris").tensor, expected, atol=1e-6)
        assert elmo.layer_cache.hits == 0
        nlp("She hates Paris")
        assert elmo.layer_cache.hits == 1


def test_several_processes_share_a_file(tmp_path):
    """Forked while the file is open here."""
    nlp = alone()
    elmo = nlp.get_pipe("elmo")
    path = tmp_path / "layers"
    elmo.use_layer_cache(path)
    texts = [f"sentence number {n} of many" for n in range(24)]
    expected = [doc.tensor for doc in nlp.pipe(texts[:8])]
    found = [doc.tensor for doc in nlp.pipe(texts, n_process=2, batch_size=4)]
    assert all(np.array_equal(a, b) for a, b in zip(found, expected))
    elmo.use_layer_cache(path)
    again = [doc.tensor for doc in nlp.pipe(texts)]
    assert elmo.layer_cache.misses == 0 and elmo.layer_cache.hits == 24
    assert all(np.array_equal(a, b) for a, b in zip(found, again, strict=True))


def test_layers_of_another_length_are_not_taken():
    """A file that was made so could hold one vector for all tokens."""
    nlp = alone()
    elmo = nlp.get_pipe("elmo")
    elmo.use_layer_cache("memory")
    expected = nlp("She hates Paris").tensor
    cache = elmo.layer_cache
    real = cache.read
    cache.read = lambda keys: {k: v[:, :1] for k, v in real(keys).items()}
    with pytest.warns(UserWarning, match=r"ELW26.*EL086"):
        tensor = nlp("She hates Paris").tensor
    assert np.array_equal(tensor, expected) and elmo.layer_cache is None
