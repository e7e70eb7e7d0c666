"""Pipelines under joblib: files that are mapped into memory, processes and threads."""

import io

import numpy as np
import pytest

from spacy_elmo import similarity
from spacy_elmo.bilm import BiLMConfig

from ..pipelines import annotations, examples, trained

joblib = pytest.importorskip("joblib")
Parallel, delayed = joblib.Parallel, joblib.delayed
# Arrays of more than 1 MB, which joblib maps into memory in place of a copy.
LARGE = BiLMConfig(hidden_dim=256, projection_dim=128, filters=((1, 64), (3, 960)))
TEXTS = ["I like London", "She hates Paris now", "We saw Kim " * 30] * 2


def read(nlp, texts):
    docs = list(nlp.pipe(texts))
    layers = [doc._.elmo.layers for doc in docs]
    return [doc.tensor for doc in docs], layers, similarity(docs[0][0], docs[1][0])


def learn(nlp):
    batch = examples(nlp)
    optimizer = nlp.resume_training()
    losses = [nlp.update(batch, sgd=optimizer)["tagger"] for _ in range(2)]
    return [*losses, nlp.evaluate(batch)["tag_acc"]]


def same(found, expected):
    for a, b in zip(found[:2], expected[:2], strict=True):
        assert all(map(np.array_equal, a, b))
    assert found[2] == expected[2]


@pytest.fixture(scope="module", params=[True, False], ids=["frozen", "fine-tuned"])
def nlp(request):
    return trained(sizes=LARGE, frozen=request.param)


@pytest.mark.parametrize(
    "backend",
    ["loky", "threading", pytest.param("multiprocessing", marks=pytest.mark.slow)],
)
def test_workers(nlp, backend):
    workers = Parallel(n_jobs=2, backend=backend)
    for found in workers(delayed(read)(nlp, TEXTS) for _ in range(3)):
        same(found, read(nlp, TEXTS))


def test_a_worker_trains_its_copy():
    """Of a frozen biLM: what spaCy's parser draws at random matters to another."""
    nlp = trained(sizes=LARGE)
    before = annotations(nlp)
    found = Parallel(n_jobs=2, backend="loky")(delayed(learn)(nlp) for _ in range(2))
    assert annotations(nlp) == before
    assert found == [learn(nlp)] * 2


@pytest.mark.parametrize("mmap_mode", [None, "c", "r"])
def test_files(nlp, mmap_mode, tmp_path):
    path = tmp_path / "nlp.joblib"
    joblib.dump(nlp, path)
    loaded = joblib.load(path, mmap_mode=mmap_mode)
    same(read_by_elmo(loaded), read_by_elmo(nlp))
    if mmap_mode != "r":  # spaCy's own components can't be read-only
        same(read(loaded, TEXTS), read(nlp, TEXTS))
        learn(loaded)
        loaded.to_disk(tmp_path / "saved")


def read_by_elmo(nlp):
    with nlp.select_pipes(enable="elmo"):
        return read(nlp, TEXTS)


def test_packed_and_in_memory(nlp):
    file = io.BytesIO()
    joblib.dump(nlp, file, compress=3)
    file.seek(0)
    same(read(joblib.load(file), TEXTS), read(nlp, TEXTS))


def test_results_are_remembered(nlp, tmp_path):
    remembered = joblib.Memory(tmp_path, verbose=0).cache(read)
    same(remembered(nlp, TEXTS), read(nlp, TEXTS))
    same(remembered(nlp, TEXTS), read(nlp, TEXTS))
    assert joblib.hash(nlp) == joblib.hash(nlp)
