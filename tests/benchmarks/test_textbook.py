"""What speed is measured against computes the same."""

import pytest
import torch

from benchmarks import inference, textbook
from benchmarks.pretrain import Training, benchmark, textbook_batch
from benchmarks.sizes import SIZES, zipf_text
from benchmarks.timing import in_turn
from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.objectives import FullSoftmax
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.text.streams import Streams

from ..models import tiny_config

CPU = torch.device("cpu")
TINY = SIZES["tiny"]


@pytest.mark.parametrize("clips", [True, False])
def test_losses_and_gradients_are_ours(clips):
    config = tiny_config() if clips else tiny_config(cell_clip=None, proj_clip=None)
    corpus = zipf_text(50, 2000)
    torch.manual_seed(0)
    model = LanguageModel(BiLM.random(config), FullSoftmax(6, 50))
    streams = Streams(corpus, model.bilm, 5, 7)
    states = [model.bilm.zero_state(5)] * 2
    for number in (0, 1):
        batch = streams.batch(number)
        log_ps, states[0] = model(batch, states[0])
        ours = -torch.cat(log_ps).mean()
        inputs = textbook_batch(batch, model.bilm)
        theirs, states[1] = textbook.loss(model, *inputs, states[1])
        assert float(ours) == pytest.approx(float(theirs), rel=1e-5)
        leaves = list(model.parameters())
        for a, b in zip(
            torch.autograd.grad(ours, leaves), torch.autograd.grad(theirs, leaves)
        ):
            assert torch.allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("objective", ["full", "adaptive", "sampled", "textbook"])
def test_every_objective_trains(objective):
    training = Training(
        objective,
        SIZES["tiny"],
        zipf_text(100, 4000),
        batch_size=8,
        unroll_steps=10,
        device=CPU,
        precision="float32",
    )
    before = [p.clone() for p in training.model.parameters()]
    assert [training.step() for _ in range(3)] == [80.0] * 3
    moved = [not torch.equal(a, b) for a, b in zip(before, training.model.parameters())]
    assert sum(moved) >= len(moved) - 1


def test_made_up_text_is_like_english():
    corpus = zipf_text(20_000, 200_000)
    batch = Streams(corpus, BiLM.random(tiny_config()), 64, 20).batch(0)
    share = len(batch.characters_VC) / 2560
    assert 0.3 < share < 0.6  # distinct words of a batch
    lengths = [len(word) for word in corpus.words[3:]]
    assert 5 < sum(lengths) / len(lengths) < 9
    assert sum(lengths[:100]) / 100 < 6


def test_figures_have_all_that_they_need():
    found = benchmark(
        size="tiny",
        vocabularies=[200],
        objectives=["full", "textbook"],
        batch_size=4,
        unroll_steps=5,
        rounds=1,
        device=CPU,
    )
    assert set(found["tokens_per_second"][200]) == {"full", "textbook"}
    assert found["machine"]["torch"] == torch.__version__
    assert 0 < found["lstm_share_of_peak"] < 1 < found["matrix_peak_flops"]


def test_in_turn():
    order = []

    def run(name):
        return lambda: float(order.append(name) or 1)

    in_turn({"a": run("a"), "b": run("b")}, 3, CPU)
    assert order == ["a", "b"] * 4  # the first of each is not counted


@pytest.mark.parametrize("size", ["tiny", "clips"])
def test_vectors_are_ours(size):
    bilm = BiLM.random(SIZES["tiny"] if size == "tiny" else tiny_config())
    sentences = [["a", "고양이", "sat"], [], ["on"] * 9, ["a"]]
    theirs = textbook.vectors(bilm, sentences)
    for b, (sentence, ours) in enumerate(zip(sentences, bilm.encode(sentences))):
        inner = theirs[:, 1 : len(sentence) + 1, b].numpy()
        assert ours == pytest.approx(inner, abs=1e-5)


def test_inference_has_all_its_figures():
    before = torch.get_num_threads()
    found = inference.benchmark(
        ["tiny"],
        zipf_text(300, 3000),
        batch_sizes=[1, 64],
        threads=[1, 2],
        n_tokens=700,
        rounds=1,
    )
    assert torch.get_num_threads() == before
    assert [(s["threads"], s["batch_size"]) for s in found["speeds"]] == [
        (1, 1), (1, 64), (2, 1), (2, 64),
    ]  # fmt: skip
    kinds = {"textbook", "cold", "warm", *inference.other_precisions(BiLM.random(TINY))}
    assert set(found["speeds"][0]["tokens_per_second"]) == kinds
    kinds |= {"textbook, sorted", "cold, sorted"}
    assert set(found["speeds"][1]["tokens_per_second"]) == kinds
    model = found["models"]["tiny"]
    for latency in model["latency_ms"].values():
        assert all(0 < t["p50"] <= t["p95"] for t in latency.values())
    assert 0 < model["share_of_peak"] < 1
    assert found["tokens"] == 637 and found["sentences"] == 32
    assert found["baselines"]["HashEmbedCNN 4x96"] > 0


def test_flops_are_those_that_torch_counts():
    """Of the textbook's products for one word of each length, the least there is."""
    from torch.utils.flop_counter import FlopCounterMode

    bilm = BiLM.random(TINY)
    word = "abcdefgh"
    counted = FlopCounterMode(display=False)
    config = bilm.config
    windows = len(word) + 3
    with counted, torch.no_grad():
        filters = torch.randn(sum(n * w for w, n in config.filters), config.char_dim)
        torch.randn(windows, config.char_dim) @ filters.t()
        x = torch.randn(1, config.n_filters)
        for _ in range(config.n_highway):
            x = bilm.token_encoder.highways[0](x)
        bilm.token_encoder.by_projection(
            x, bilm.token_encoder.projection_weight, bilm.token_encoder.projection_bias
        )
        for stack in (bilm.forward_lstm, bilm.backward_lstm):
            for layer in stack.layers:
                x = torch.randn(3, config.projection_dim)  # with both boundaries
                h = x @ layer.weight_x + x @ layer.weight_h
                h[:, : config.hidden_dim] @ layer.weight_p
    # oneDNN's products are not known to the counter: it sees those of small weights.
    assert inference.flops_a_token(bilm, [[word]], 1) == counted.get_total_flops()
