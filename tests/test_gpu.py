"""On a GPU: the same vectors, cupy tensors, training, moving between devices."""

import subprocess
import time

import pytest
import spacy
import torch
from thinc.util import has_cupy_gpu

from spacy_elmo.pretrain import checkpoint
from spacy_elmo.pretrain.card import read_card
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.pretrain.perplexity import perplexity
from spacy_elmo.text.corpus import build_corpus

from .pipelines import annotations, examples, pipeline, trained
from .pretrain.runs import (
    ADAPTIVE,
    CONFIG,
    SAMPLED,
    command,
    run,
    write_config,
    write_text,
)

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


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("clips", [True, False], ids=["clips", "cuDNN"])
@pytest.mark.parametrize(
    "objective", [{}, ADAPTIVE, SAMPLED], ids=["full", "adaptive", "sampled"]
)
def test_pretraining_on_the_gpu(tmp_path, precision, clips, objective):
    """What it learnt there it knows on the CPU."""
    write_text(tmp_path)
    text = CONFIG.replace('device = "cpu"', 'device = "cuda"')
    if not clips:
        text = text.replace("char_dim", "cell_clip = null\nproj_clip = null\nchar_dim")
    config = write_config(tmp_path, text, **objective)
    run(config, tmp_path / "out", "--training.precision", precision)
    found = read_card(tmp_path / "out" / "model-best")["dev_perplexity"]["mean"]
    model = LanguageModel.load(tmp_path / "out" / "model-best")
    lines = [line.split() for line in (tmp_path / "dev.txt").open()]
    dev = build_corpus(lines, vocab=model.bilm.vocab)
    assert perplexity(model, dev).mean == pytest.approx(found, rel=1e-3)
    assert found < 8


def test_a_gpu_run_goes_on_where_it_was(tmp_path):
    write_text(tmp_path)
    text = CONFIG.replace('device = "cpu"', 'device = "cuda"')
    config = write_config(tmp_path, text.replace("epochs = 3", "epochs = 60"))
    process = subprocess.Popen(command(config, tmp_path / "out"))
    while process.poll() is None and not (tmp_path / "out" / "model-best").exists():
        time.sleep(0.05)
    process.terminate()
    process.wait()
    step = checkpoint.read_progress(tmp_path / "out")["step"]
    assert 0 < step < 60 * 23
    run(config, tmp_path / "out")
    assert checkpoint.read_progress(tmp_path / "out")["step"] == 60 * 23
