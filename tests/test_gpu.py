"""On a GPU: the same vectors, cupy tensors, training, moving between devices."""

import subprocess
import sys

import numpy as np
import pytest
import spacy
import torch
from thinc.util import has_cupy_gpu

from spacy_elmo.bilm.bilm import BiLM

from .pipelines import annotations, examples, pipeline, trained

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not (torch.cuda.is_available() and has_cupy_gpu), reason="needs a GPU and cupy"
    ),
]
SENTENCES = [["A", "cat", "sat"], ["고양이", "가"], []]


@pytest.fixture
def gpu():
    from thinc.api import prefer_gpu, require_cpu

    assert prefer_gpu()
    yield
    require_cpu()


def test_bilm_gives_the_same_layers(tiny):
    expected = tiny.encode(SENTENCES)
    for found, array in zip(tiny.to("cuda").encode(SENTENCES), expected):
        assert found.shape == array.shape
        assert not found.size or abs(found - array).max() < 1e-5


def test_doc_tensor_is_cupy_of_its_own(gpu):
    import cupy

    nlp = trained()
    docs = list(nlp.pipe(["I like Paris", " ", "", "She hates Kim now"]))
    for doc in docs:
        assert isinstance(doc.tensor, cupy.ndarray) and doc.tensor.dtype == cupy.float32
        assert doc.tensor.shape == (len(doc), 12) and doc.tensor.flags.owndata
        assert isinstance(doc._.elmo.layers, cupy.ndarray)


@pytest.mark.parametrize("frozen", [True, False])
def test_training_on_the_gpu(gpu, frozen):
    nlp = pipeline(frozen=frozen)
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    optimizer.learn_rate = 0.05
    before = [p.clone() for p in nlp.get_pipe("elmo").bilm.parameters()]
    losses = [nlp.update(batch, sgd=optimizer)["tagger"] for _ in range(30)]
    after = list(nlp.get_pipe("elmo").bilm.parameters())
    assert after[0].is_cuda and losses[-1] < losses[0] / 2
    assert all(torch.equal(a, b) for a, b in zip(before, after)) is frozen


def test_saved_on_the_gpu_and_loaded_on_the_cpu_and_back(gpu, tmp_path):
    from thinc.api import require_cpu, require_gpu

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


def test_pretraining_on_the_gpu(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat\na dog sat\n" * 40)
    (tmp_path / "run.cfg").write_text(
        f'[text]\ntrain = ["{text}"]\ndev = ["{text}"]\n'
        "[model]\nhidden_dim = 16\nprojection_dim = 8\nfilters = [[1, 8]]\n"
        '[training]\nbatch_size = 4\neval_every = 20\nepochs = 4\ndevice = "cuda"\n'
    )
    command = [
        sys.executable,
        "-m",
        "spacy",
        "elmo",
        "pretrain",
        str(tmp_path / "run.cfg"),
    ]
    subprocess.run([*command, "--output", str(tmp_path / "out")], check=True)
    bilm = BiLM.load(tmp_path / "out" / "model-best")
    assert np.isfinite(bilm.encode([["the", "cat"]])[0]).all()
