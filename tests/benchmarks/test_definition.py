"""What speed is measured against computes the same."""

import pytest
import torch

from benchmarks import kernels
from benchmarks.inference import Definition, flops_per_token
from benchmarks.inference import benchmark as inference
from benchmarks.pretrain import (
    DEFINITION,
    Training,
    benchmark,
    every_token,
    made_up_text,
)
from benchmarks.speed import made_up_sentences, made_up_words, precisions
from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.kernels import find_library, force
from spacy_elmo.bilm.model import BidirectionalLM
from spacy_elmo.bilm.objectives import FullSoftmax
from spacy_elmo.pretrain.model import LanguageModel, on_device
from spacy_elmo.text.streams import Streams

from ..models import EVEN_SIZES, tiny_config

CPU = torch.device("cpu")


@pytest.mark.parametrize("clips", [True, False])
def test_losses_and_gradients_are_ours(clips):
    config = tiny_config() if clips else tiny_config(cell_clip=None, proj_clip=None)
    corpus = made_up_text(50, 2000)
    torch.manual_seed(0)
    model = LanguageModel(BiLM.random(config), FullSoftmax(6, 50))
    plain = LanguageModel(BiLM(config), FullSoftmax(6, 50))
    plain.load_state_dict(model.state_dict())
    streams = Streams(corpus, model.bilm, 5, 7)
    states = [model.bilm.zero_state(5)] * 2
    for number in (0, 1):
        batch = streams.batch(number)
        log_p_P, states[0] = model(on_device(batch, CPU), states[0])
        ours = -log_p_P.mean()
        every = on_device(every_token(batch, config), CPU)
        with force(**DEFINITION):
            log_p_P, states[1] = plain(every, states[1])
        theirs = -log_p_P.mean()
        assert float(ours) == pytest.approx(float(theirs), rel=1e-5)
        both = (ours, model), (theirs, plain)
        grads = [torch.autograd.grad(loss, list(m.parameters())) for loss, m in both]
        for a, b in zip(*grads):
            assert torch.allclose(a, b, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["full", "adaptive", "sampled", "definition"])
def test_every_objective_trains(objective):
    training = Training(
        objective,
        EVEN_SIZES,
        made_up_text(100, 4000),
        batch_size=8,
        unroll_steps=10,
        device=CPU,
        precision="float32",
    )
    before = [p.clone() for p in training.model.parameters()]
    assert [training.step() for _ in range(3)] == [80.0] * 3
    moved = [not torch.equal(a, b) for a, b in zip(before, training.model.parameters())]
    assert sum(moved) >= len(moved) - 1


def test_every_token_of_words_in_parts(monkeypatch):
    """As a GPU is given them: each token with all its characters."""
    bilm, corpus = BiLM.random(tiny_config()), made_up_text(50, 2000)
    whole = Streams(corpus, bilm, 5, 7).batch(0)
    monkeypatch.setattr(BiLM, "device", torch.device("cuda"))
    parts = Streams(corpus, bilm, 5, 7).batch(0)
    assert (whole.n_parts, parts.n_parts) == (1, 3)
    (expected,), (found,) = (
        every_token(batch, bilm.config).token_ids for batch in (whole, parts)
    )
    assert (found == expected).all()


def test_made_up_text_is_like_english():
    corpus = made_up_text(20_000, 200_000)
    batch = Streams(corpus, BiLM.random(tiny_config()), 64, 20).batch(0)
    share = len(batch.token_ids[0]) / 2560
    assert 0.3 < share < 0.6  # distinct words of a batch
    lengths = [len(word) for word in made_up_words(20_000)]
    assert 5 < sum(lengths) / len(lengths) < 9
    assert sum(lengths[:100]) / 100 < 6
    assert len(corpus.vocab) == 20_000


@pytest.mark.slow
def test_figures_have_all_that_they_need(folder):
    found = benchmark(
        model=str(folder),
        vocabularies=[200],
        objectives=["full", "definition"],
        batch_size=4,
        unroll_steps=5,
        rounds=1,
        device=CPU,
    )
    (row,) = found["tokens/s"]
    assert row["words"] == 200 and row["full"] > 0 and row["definition"] > 0
    (memory,) = found["of all"]
    assert 0 < memory["LSTMs, share of peak"] < 1 and memory["GB"] > 0


@pytest.fixture
def folder(tmp_path):
    BiLM.random(EVEN_SIZES).save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("size", ["tiny", "clips"])
def test_vectors_are_ours(size):
    bilm = BiLM.random(EVEN_SIZES if size == "tiny" else tiny_config())
    sentences = [["a", "고양이", "sat"], [], ["on"] * 9, ["a"]]
    theirs = Definition(bilm).encode(sentences)
    for ours, layers in zip(bilm.encode(sentences), theirs, strict=True):
        assert ours == pytest.approx(layers.numpy(), abs=1e-5)


@pytest.mark.slow
def test_inference_has_all_its_figures(folder):
    before = torch.get_num_threads()
    sentences = made_up_sentences(made_up_words(100), 200)
    found = inference(
        [str(folder)], sentences, batch_sizes=[1, 8], threads=[1], rounds=1
    )
    assert torch.get_num_threads() == before
    speeds = found["tokens/s"]
    assert [(row["threads"], row["batch"]) for row in speeds] == [(1, 1), (1, 8)]
    kinds = {"definition", "cold", "warm", *precisions()[1:]}
    for row in speeds:
        assert set(row) == {"model", "threads", "batch", *kinds}
    for row in found["milliseconds of 20 tokens"]:
        assert all(0 < row[kind] <= row[f"{kind}, p95"] for kind in kinds)
    (model,) = found["models"]
    assert model["share of peak"] > 0  # beside other work it may be more than 1
    (others,) = found["tokens/s of other models"]
    assert others["HashEmbedCNN 4x96"] > 0


@pytest.mark.slow
def test_the_library_has_all_its_figures(folder):
    rows = kernels.measure(str(folder), 1)
    assert [row["precision"] for row in rows if row["instructions"] == "none"] == [
        "float32"
    ]
    for row in rows:
        assert row["ms of 64"] > row["ms of one"] > 0 and row["of torch's product"] > 0
    if library := find_library():
        found = {row["precision"] for row in rows if row["instructions"] != "none"}
        assert found == {"float32", "half"}
        assert library.instructions in {row["instructions"] for row in rows}


def test_flops_are_those_that_torch_counts():
    """Of the definition's products for one word of each length, the least there is."""
    from torch.utils.flop_counter import FlopCounterMode

    model = BidirectionalLM(EVEN_SIZES)
    word = "abcdefgh"
    counted = FlopCounterMode(display=False)
    config = model.config
    windows = len(word) + 3
    with counted, torch.no_grad():
        filters = torch.randn(sum(n * w for w, n in config.filters), config.char_dim)
        torch.randn(windows, config.char_dim) @ filters.t()
        x = torch.randn(1, config.n_filters)
        for _ in range(config.n_highway):
            x = model.token_encoder.highways[0](x)
        model.token_encoder.project(x)
        for stack in (model.forward_lstm, model.backward_lstm):
            for layer in stack.layers:
                x = torch.randn(3, config.projection_dim)  # with both boundaries
                h = x @ layer.weight_x + x @ layer.weight_h
                h[:, : config.hidden_dim] @ layer.weight_p
    assert flops_per_token(BiLM(config), [[word]], 1) == counted.get_total_flops()
