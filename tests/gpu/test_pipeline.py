"""On a GPU: cupy tensors, listeners, training, caches, moving between devices."""

import gc
import importlib
import itertools
import threading

import pytest
import spacy
import torch
from spacy.training import Example
from thinc.api import SGD, prefer_gpu, require_cpu, require_gpu
from thinc.util import has_cupy_gpu

from ..models import tiny_config
from ..pipeline.test_replaced import TOK2VEC
from ..pipelines import (
    TAGGER,
    add_elmo,
    annotations,
    examples,
    listeners,
    parameters,
    pipeline,
    trained,
)
from . import memory_for, needs_gpu

pytestmark = [*needs_gpu, pytest.mark.skipif(not has_cupy_gpu, reason="needs cupy")]

TEXTS = ["I like Paris", " ", "", "She hates Kim now", "We saw London " * 30]


@pytest.fixture
def gpu():
    assert prefer_gpu()
    yield
    require_cpu()


@pytest.fixture
def cupy(gpu):
    return importlib.import_module("cupy")


def same(found, expected, tolerance=1e-5):
    """cupy's arrays are NumPy's, in parts of the largest value."""
    largest = max(abs(b).max() for b in expected if b.size)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        assert not b.size or abs(a.get() - b).max() <= tolerance * largest


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("mix", ["learned", "average", "top", "concat", 0])
def test_doc_tensor_is_cupy_of_its_own(cupy, mix, layer_norm):
    require_cpu()
    settings = {"mix": mix, "layer_norm": layer_norm}
    expected = [
        doc.tensor for doc in pipeline(**settings).get_pipe("elmo").pipe(made())
    ]
    require_gpu()
    elmo = pipeline(**settings).get_pipe("elmo")
    docs = list(elmo.pipe(made()))
    for doc in docs:
        assert isinstance(doc.tensor, cupy.ndarray) and doc.tensor.dtype == cupy.float32
        assert doc.tensor.base is None
        assert isinstance(doc._.elmo.layers, cupy.ndarray)
    same([doc.tensor for doc in docs], expected)


def made():
    nlp = spacy.blank("en")
    return map(nlp.make_doc, TEXTS)


def test_listeners_read_what_they_do_on_the_cpu(gpu):
    require_cpu()
    nlp = trained()
    docs = list(nlp.pipe(TEXTS))
    expected = nlp.get_pipe("elmo").listeners[0].predict(docs)
    data = nlp.to_bytes()
    require_gpu()
    nlp = pipeline().from_bytes(data)
    docs = list(nlp.pipe(TEXTS))
    same(nlp.get_pipe("elmo").listeners[0].predict(docs), expected)


@pytest.mark.parametrize("precision", ["tf32", "half"])
def test_lower_precisions(gpu, precision):
    expected = trained()("I like Paris now").tensor.get()
    nlp = trained(model={"precision": precision})
    found = nlp("I like Paris now").tensor
    same([found], [expected], 2e-2)
    assert nlp.get_pipe("elmo").bilm.precision == precision
    if precision == "half":  # matrices so small may not be multiplied in TF32
        assert abs(found.get() - expected).max() > 1e-5 * abs(expected).max()


@pytest.mark.parametrize("frozen", [True, False])
def test_training(gpu, frozen):
    nlp = pipeline(frozen=frozen)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    optimizer.learn_rate = 0.05
    before = [p.clone() for p in nlp.get_pipe("elmo").bilm.parameters()]
    losses = [nlp.update(batch, sgd=optimizer)["tagger"] for _ in range(30)]
    after = list(nlp.get_pipe("elmo").bilm.parameters())
    assert after[0].is_cuda and losses[-1] < losses[0] / 2
    assert all(torch.equal(a, b) for a, b in zip(before, after)) is frozen


def tagger_alone():
    """elmo, fine-tuned at the rate of the optimizer -> tagger, without dropout."""
    nlp = spacy.blank("en")
    add_elmo(nlp, frozen=False, learn_rate_factor=1.0)
    listener = {"@architectures": "spacy-elmo.ElmoListener.v1", "dropout": 0.0}
    tagger = {"@architectures": "spacy.Tagger.v2", "tok2vec": listener}
    nlp.add_pipe("tagger", config={"model": tagger})
    return nlp


def test_fine_tuning_changes_weights_as_on_the_cpu(gpu):
    """From the same weights: NumPy and CuPy begin with different random ones."""
    require_cpu()
    first = tagger_alone()
    first.initialize(lambda: examples(first))
    changes = {}
    for device in ("cpu", "gpu"):
        require_cpu() if device == "cpu" else require_gpu()
        nlp = tagger_alone().from_bytes(first.to_bytes())
        before = parameters(nlp)
        # Plain steps: Adam's first ones are as long for the smallest of gradients.
        sgd = SGD(0.1, L2=0.0, grad_clip=0.0)
        for _ in range(4):  # the first ones reach little but the output layer
            nlp.update(examples(nlp), sgd=sgd)
        pairs = zip(before, parameters(nlp), strict=True)
        changes[device] = torch.cat([(b - a).cpu().flatten() for a, b in pairs])
    largest = changes["cpu"].abs().max()
    assert largest > 1e-3
    assert (changes["gpu"] - changes["cpu"]).abs().max() <= 1e-3 * largest


@pytest.mark.parametrize("frozen", [True, False])
def test_a_tagger_with_a_bilm_of_its_own(gpu, frozen):
    nlp = trained(frozen=frozen)
    expected = annotations(nlp)
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    assert annotations(nlp) == expected
    nlp.remove_pipe("ner")
    nlp.remove_pipe("elmo")
    batch = [
        Example.from_dict(each.predicted.copy(), {"tags": ["P"] * len(each.predicted)})
        for each in examples(nlp)
    ]
    losses = [nlp.update(batch, sgd=nlp.resume_training())["tagger"] for _ in range(5)]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("where", ["memory", "file"])
def test_layer_cache(cupy, where, tmp_path):
    nlp = trained()
    expected = [doc.tensor.get() for doc in nlp.pipe(TEXTS)]
    elmo = nlp.get_pipe("elmo")
    elmo.use_layer_cache("memory" if where == "memory" else tmp_path / "layers")
    for _ in range(2):
        docs = list(nlp.pipe(TEXTS))
        same([doc.tensor for doc in docs], expected)
    assert elmo.layer_cache.hits >= 3
    assert all(isinstance(doc._.elmo.layers, cupy.ndarray) for doc in docs)


def test_token_vectors_of_the_task_s_own(gpu):
    """Vectors of characters beside ELMo, and a listener inside an encoder."""
    characters = {
        "@architectures": "spacy.CharacterEmbed.v2",
        "width": 8,
        "rows": 50,
        "nM": 4,
        "nC": 4,
        "include_static_vectors": False,
    }
    embed = {**TOK2VEC["embed"], "embed": characters}
    nlp = spacy.blank("en")
    add_elmo(nlp)
    model = {**TAGGER["model"], "tok2vec": {**TOK2VEC, "embed": embed}}
    nlp.add_pipe("tagger", config={"model": model})
    batch = [
        Example.from_dict(nlp.make_doc(text), {"tags": tags})
        for text, tags in [("I like Paris", "PVN"), ("We saw Kim", "PVN")]
    ]
    optimizer = nlp.initialize(lambda: batch)
    optimizer.learn_rate = 0.01
    losses = [nlp.update(batch, sgd=optimizer)["tagger"] for _ in range(30)]
    assert losses[-1] < losses[0] / 2


def test_saved_on_the_gpu_and_loaded_on_the_cpu_and_back(gpu, tmp_path):
    nlp = trained()
    expected, tensor = annotations(nlp), nlp("I like Paris now").tensor.get()
    nlp.to_disk(tmp_path)
    require_cpu()
    cpu = spacy.load(tmp_path)
    assert annotations(cpu) == expected
    assert abs(cpu("I like Paris now").tensor - tensor).max() < 1e-5
    cpu.to_disk(tmp_path / "again")
    require_gpu()
    again = spacy.load(tmp_path / "again")
    assert annotations(again) == expected
    assert abs(again("I like Paris now").tensor.get() - tensor).max() < 1e-5


@pytest.mark.parametrize("n_listeners", [0, 2])
def test_pipe_waits_for_nothing_but_events(gpu, n_listeners):
    """As far as torch sees it: it does not call it a wait that an event is waited for,
    which says that the vectors of the batch before are finite."""
    nlp = trained()
    elmo = nlp.get_pipe("elmo")
    some = [nlp.make_doc(text) for text in TEXTS]
    for _ in elmo.pipe(some):
        pass  # prepares weights
    readers = listeners(nlp)[:n_listeners]
    torch.cuda.set_sync_debug_mode("error")
    try:
        docs = list(elmo.pipe(some, batch_size=2))
        for listener in readers:
            listener.predict(docs)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_thread_takes_the_weights_to_the_components_device(cupy):
    """Thinc's current ops are those of the thread."""
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    docs = []
    thread = threading.Thread(target=lambda: docs.append(nlp("I like Paris")))
    thread.start()
    thread.join()
    assert isinstance(docs[0].tensor, cupy.ndarray)
    assert nlp.get_pipe("elmo").bilm.device.type == "cuda"


def test_an_error_handler_gets_docs_whose_vectors_are_not_finite(gpu):
    nlp, handled = trained(model={"batch_tokens": 10}), []
    nlp.get_pipe("elmo").set_error_handler(
        lambda name, pipe, docs, error: handled.append((docs, error))
    )
    parameters = dict(nlp.get_pipe("elmo").bilm.named_parameters())
    with torch.no_grad():
        parameters["forward_lstm.layers.0.weight_p"].fill_(torch.nan)
    texts = ["I like Paris", "And so on"]
    list(nlp.get_pipe("elmo").pipe(map(nlp.make_doc, texts), batch_size=1))
    assert [[doc.text for doc in docs] for docs, _ in handled] == [[t] for t in texts]
    assert all("EL078" in str(error) for _, error in handled)


def test_vectors_that_are_not_finite(gpu):
    nlp = trained(model={"batch_tokens": 10})
    parameters = dict(nlp.get_pipe("elmo").bilm.named_parameters())
    with torch.no_grad():
        parameters["forward_lstm.layers.0.weight_p"].fill_(torch.nan)
    for read in (nlp, lambda text: list(nlp.pipe([text, "And so on"], batch_size=1))):
        with pytest.raises(ValueError, match=r"EL078.*I like Paris"):
            read("I like Paris")


def test_docs_that_do_not_fit_the_memory_of_cupy(cupy):
    nlp = spacy.blank("en")
    add_elmo(nlp, sizes=tiny_config(hidden_dim=64, projection_dim=64))
    some = ["We saw London " * 300] * 40
    expected = [doc.tensor.get() for doc in nlp.pipe(some)]
    pool = cupy.cuda.get_allocator().__self__  # Thinc's, which takes torch's memory
    peak, n_bytes = pool.total_bytes(), sum(tensor.nbytes for tensor in expected)
    gc.collect()
    pool.free_all_blocks()
    # What is computed of all Docs at once does not fit beside their tensors.
    pool.set_limit((n_bytes + peak) // 2)
    try:
        with pytest.warns(UserWarning, match="ELW06"):
            found = [doc.tensor.get() for doc in nlp.pipe(some)]
    finally:
        pool.set_limit(0)
    for ours, theirs in zip(found, expected, strict=True):
        assert abs(ours - theirs).max() <= 1e-5 * abs(theirs).max()


def test_docs_that_do_not_fit_at_once(gpu):
    nlp = spacy.blank("en")
    config = tiny_config(hidden_dim=1024, projection_dim=128, filters=((1, 512),))
    add_elmo(nlp, sizes=config, model={"batch_tokens": 1 << 20})
    words = (f"w{i}" for i in itertools.count())
    some = [" ".join(itertools.islice(words, 20)) for _ in range(100)]
    expected = [doc.tensor.get() for doc in nlp.pipe(some)]

    def read():
        nlp.get_pipe("elmo").bilm.token_cache.clear()
        return list(nlp.pipe(some))

    with memory_for(0.3, read), pytest.warns(UserWarning, match="ELW06"):
        found = [doc.tensor for doc in read()]
    same(found, expected)
