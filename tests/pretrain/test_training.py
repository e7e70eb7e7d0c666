"""Training: the objective, held-out perplexity, and what a run leaves behind."""

import json
import math

import pytest
import torch

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.weights import fingerprint
from spacy_elmo.pretrain.card import read_card
from spacy_elmo.pretrain.config import read_config
from spacy_elmo.pretrain.corpus import BOS_ID, EOS_ID, build_corpus, reverse_sentences
from spacy_elmo.pretrain.loop import learn_rate_factor, pretrain
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.pretrain.perplexity import perplexity

from ..models import tiny_config

TEXT = [
    ["the", "cat", "sat", "on", "the", "mat"],
    ["a", "dog", "sat"],
    ["the", "end"],
] * 8


def language_model(cutoffs=(), seed=0):
    corpus = build_corpus(TEXT, vocab_size=9)
    bilm = BiLM.random(tiny_config(), seed=seed, vocab=corpus.vocab)
    return LanguageModel.start(
        bilm, cutoffs, seed=seed, dropout_rate=0.0
    ).eval(), corpus


def straightforward(model, corpus):
    """Losses of both directions, the whole text as one stream: every prediction from
    the row of the softmax over the vocabulary."""
    losses = []
    for stack, ids, first in (
        (model.bilm.forward_lstm, corpus.ids, BOS_ID),
        (model.bilm.backward_lstm, reverse_sentences(corpus.ids), EOS_ID),
    ):
        words = [corpus.words[i] for i in ids[:-1]]
        x = model.bilm.token_vectors(words)
        layers, _ = stack(x, [1] * len(words), model.bilm.zero_state(1)[0])
        log_p = torch.log_softmax(
            layers[-1] @ model.softmax.weight.t() + model.softmax.bias, dim=1
        )
        targets = [2 if t >= corpus.n_vocab else int(t) for t in ids[1:]]
        losses.append([-float(p[t]) for p, t in zip(log_p, targets) if t != first])
    return losses


@pytest.mark.parametrize("steps", [1, 4, 1000])
def test_perplexity_is_that_of_the_whole_text_however_it_is_unrolled(steps):
    model, corpus = language_model()
    with torch.no_grad():
        ahead, back = straightforward(model, corpus)
    found = perplexity(model, corpus, batch_size=1, unroll_steps=steps)
    assert found.forward == pytest.approx(math.exp(sum(ahead) / len(ahead)), rel=1e-4)
    assert found.backward == pytest.approx(math.exp(sum(back) / len(back)), rel=1e-4)
    both = ahead + back
    assert found.mean == pytest.approx(math.exp(sum(both) / len(both)), rel=1e-4)
    assert found.tokens == sum(len(sentence) for sentence in TEXT)
    assert 0 < found.coverage < 1


def test_joint_gradient_is_the_sum_over_directions():
    model, corpus = language_model()
    from spacy_elmo.pretrain.corpus import Streams

    window = Streams(corpus, 4, 6).window(0)
    grads = []
    for pick in ([0, 1], [0], [1]):
        model.zero_grad()
        log_ps, _ = model(window, corpus.words, model.bilm.zero_state(4))
        sum(-log_ps[d].sum() for d in pick).backward()
        grads.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
        if pick == [0]:
            assert model.bilm.backward_lstm.layers[0].bias.grad.abs().max() == 0
    both, ahead, back = grads
    assert all(
        torch.allclose(b, x + y, atol=1e-4) for b, x, y in zip(both, ahead, back)
    )


# -- whole runs -------------------------------------------------------------------

CONFIG = """
[text]
train = ["{folder}/train.txt"]
dev = ["{folder}/dev.txt"]

[vocab]
size = 40

[model]
hidden_dim = 16
projection_dim = 8
char_dim = 4
filters = [[1, 8], [3, 8]]

[training]
cutoffs = {cutoffs}
batch_size = 4
unroll_steps = 6
epochs = {epochs}
learn_rate = 0.01
warmup_steps = 2
eval_every = 20
threads = 1
device = "cpu"
"""


@pytest.fixture
def setting(tmp_path):
    lines = [" ".join(sentence) for sentence in TEXT]
    (tmp_path / "train.txt").write_text("\n".join(lines * 4))
    (tmp_path / "dev.txt").write_text("\n".join(lines[:9]))

    def config(cutoffs="[]", epochs=3, **overrides):
        path = tmp_path / "run.cfg"
        path.write_text(CONFIG.format(folder=tmp_path, cutoffs=cutoffs, epochs=epochs))
        return read_config(
            path, {k.replace("__", "."): v for k, v in overrides.items()}
        )

    return config


@pytest.mark.parametrize("cutoffs", ["[]", "[5]"])
def test_a_run_learns_and_leaves_models_cards_and_a_log(setting, tmp_path, cutoffs):
    best = pretrain(setting(cutoffs, 12), tmp_path / "out", command="the command")
    log = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").open()]
    assert log[-1]["dev"]["mean"] < log[0]["dev"]["mean"] < 12
    assert min(row["dev"]["mean"] for row in log) < 3
    for folder in (best, tmp_path / "out" / "model-last"):
        assert sorted(path.name for path in folder.iterdir()) == [
            "card.json",
            "config.json",
            "softmax.safetensors",
            "vocab.txt",
            "weights.safetensors",
        ]
    card = read_card(best)
    model = LanguageModel.load(best)
    assert card["fingerprint"] == fingerprint(model.bilm)
    assert (
        card["command"] == "the command"
        and card["parameters"] == model.bilm.n_parameters
    )
    dev = build_corpus(
        [line.split() for line in (tmp_path / "dev.txt").open()], vocab=model.bilm.vocab
    )
    found = perplexity(model, dev)
    assert found.mean == pytest.approx(card["dev_perplexity"]["mean"], rel=1e-4)
    assert found.mean == pytest.approx(min(row["dev"]["mean"] for row in log), rel=1e-4)


def test_same_seed_same_weights(setting, tmp_path):
    runs = [
        pretrain(setting(epochs=1, training__seed=seed), tmp_path / str(n))
        for n, seed in enumerate((1, 1, 2))
    ]
    prints = [fingerprint(BiLM.load(run)) for run in runs]
    assert prints[0] == prints[1] != prints[2]


def test_goes_on_from_a_model_with_its_softmax(setting, tmp_path):
    first = pretrain(setting(), tmp_path / "first")
    second = tmp_path / "run.cfg"
    text = second.read_text().split("[model]")
    training = "[training]" + text[1].split("[training]")[1]
    second.write_text(text[0] + training + f'init = "{first}"\n')
    best = pretrain(read_config(second), tmp_path / "second")
    card = read_card(best)
    before = read_card(first)["dev_perplexity"]["mean"]
    assert card["dev_perplexity_before"]["mean"] == pytest.approx(before, rel=1e-4)
    assert card["dev_perplexity"]["mean"] < before
    assert LanguageModel.load(best).bilm.vocab == LanguageModel.load(first).bilm.vocab


def test_goes_on_from_published_weights_with_a_new_softmax(setting, tmp_path, tiny):
    tiny.save_bilm_tf(tmp_path / "published")
    setting()
    path = tmp_path / "run.cfg"
    text = path.read_text().split("[model]")
    training = "[training]" + text[1].split("[training]")[1]
    path.write_text(text[0] + training + f'init = "{tmp_path / "published"}"\n')
    best = pretrain(read_config(path), tmp_path / "out")
    model = LanguageModel.load(best)
    assert model.bilm.config == tiny.config and model.bilm.vocab[3] == "the"
    with pytest.raises(ValueError, match="EL036"):
        LanguageModel.load(tmp_path / "published")


def test_word_input_is_not_trained(setting, tmp_path):
    bilm = BiLM.random(tiny_config(n_words=5), vocab=list("abcde"))
    bilm.save_bilm_tf(tmp_path / "words")
    setting()
    path = tmp_path / "run.cfg"
    text = path.read_text().split("[model]")
    training = "[training]" + text[1].split("[training]")[1]
    path.write_text(text[0] + training + f'init = "{tmp_path / "words"}"\n')
    with pytest.raises(ValueError, match="EL037"):
        pretrain(read_config(path), tmp_path / "out")


def test_a_run_does_not_overwrite_what_it_starts_from(setting, tmp_path):
    first = pretrain(setting(epochs=1), tmp_path / "out")
    path = tmp_path / "run.cfg"
    text = path.read_text().split("[model]")
    training = "[training]" + text[1].split("[training]")[1]
    path.write_text(text[0] + training + f'init = "{first}"\n')
    with pytest.raises(ValueError, match=r"EL037.*overwrite"):
        pretrain(read_config(path), tmp_path / "out")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu(setting, tmp_path):
    with pytest.raises(ValueError, match=r"EL037.*no GPU"):
        pretrain(setting(training__device="cuda"), tmp_path / "out")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_card_has_the_fingerprint_of_what_was_saved(setting, tmp_path, dtype):
    best = pretrain(setting(epochs=1, training__save_dtype=dtype), tmp_path / "out")
    assert read_card(best)["fingerprint"] == fingerprint(BiLM.load(best))


def test_learn_rate(setting):
    training = setting(
        training__learn_rate=0.01, training__final_learn_rate=0.001
    ).training
    factors = [learn_rate_factor(step, 100, training) for step in range(101)]
    assert factors[0] == 0.5 and factors[1] == 1.0
    assert factors[1:] == sorted(factors[1:], reverse=True)
    assert factors[100] == pytest.approx(0.1)


# -- bad input --------------------------------------------------------------------


def test_empty_text(setting, tmp_path):
    (tmp_path / "train.txt").write_text(" \n\n\t\n")
    with pytest.raises(ValueError, match="EL033"):
        pretrain(setting(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_text_smaller_than_the_batch(setting, tmp_path):
    (tmp_path / "train.txt").write_text("too short")
    with pytest.raises(ValueError, match=r"EL035.*batch_size of 3"):
        pretrain(setting(), tmp_path / "out")


def test_diverging_loss_stops(setting, tmp_path):
    with pytest.raises(ValueError, match="EL038"):
        pretrain(
            setting(training__learn_rate=1e30, training__clip_norm=1e30), tmp_path / "o"
        )


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        ("training", "seed", "one"),
        ("training", "batch_size", 2.5),
        ("training", "colour", "red"),
        ("text", "train", "not a list"),
        ("vocab", "size", None),
        ("training", "batch_size", 0),
        ("training", "eval_every", 0),
        ("training", "epochs", 0),
        ("training", "learn_rate", 0.0),
        ("training", "dropout", 1.0),
        ("training", "save_dtype", "float64"),
        ("training", "device", "gpu"),
        ("training", "threads", -1),
    ],
)
def test_settings_of_the_wrong_kind(setting, section, name, value):
    with pytest.raises(ValueError, match=f"EL037.*{section}.{name}"):
        setting(**{f"{section}__{name}": value})


def test_broken_configurations(setting, tmp_path):
    setting()
    path = tmp_path / "run.cfg"
    text = path.read_text()
    cases = {
        "EL037.*nowhere": text + "\n[nowhere]\na = 1\n",
        "EL037.*dev is missing": text.replace("dev = ", "# dev = "),
        "EL037.*model": text + '\ninit = "somewhere"\n',
        "EL037": "no sections at all",
        "EL037.*bytes": text.replace("[model]", "[model]\nn_words = 5"),
        "EL020": text.replace("hidden_dim = 16", "hidden_dim = 0"),
    }
    for match, broken in cases.items():
        path.write_text(broken)
        with pytest.raises(ValueError, match=match):
            read_config(path)
    with pytest.raises(ValueError, match="EL037"):
        read_config(tmp_path / "missing.cfg")
