"""Numbers do not depend on what a process has set in torch and NumPy."""

import json
import random
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import spacy
import torch
from spacy.tokens import Doc

from spacy_elmo import BiLM, embed, similarity
from spacy_elmo.bilm import weights
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.explore import sentence_view, word_view
from spacy_elmo.pretrain import LanguageModel, perplexity
from spacy_elmo.pretrain.loop import pretrain
from spacy_elmo.text import build_corpus

from .explore.views import bank_contexts, tiny_bilm, tiny_softmax
from .models import EVEN_SIZES, tiny_config
from .pipelines import LISTENER, examples, pipeline
from .pretrain import runs

SENTENCES = [["The", "cat", "sat"], ["고양이"], [f"word{i}" for i in range(60)]]
WIDE = BiLMConfig(hidden_dim=128, projection_dim=64, filters=((1, 16), (3, 48)))


def restored(get, set_, value):
    """Set something inside."""

    @contextmanager
    def scope():
        before = get()
        set_(value)
        try:
            yield
        finally:
            set_(before)

    return scope


@contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextmanager
def default_device(device):
    torch.set_default_device(device)
    try:
        yield
    finally:
        torch.set_default_device(None)


@contextmanager
def flush_denormal():
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


dtype = partial(restored, torch.get_default_dtype, torch.set_default_dtype)
matmul = partial(
    restored,
    torch.get_float32_matmul_precision,
    torch.set_float32_matmul_precision,
)
SETTINGS = {
    "float64": dtype(torch.float64),
    "meta": partial(default_device, "meta"),
    "autocast": partial(torch.autocast, "cpu", torch.bfloat16),
    "deterministic": deterministic,
    "inference mode": torch.inference_mode,
    "NumPy raises": partial(np.errstate, all="raise"),
}
LESS_LIKELY = {
    "bfloat16": dtype(torch.bfloat16),
    "matmul medium": matmul("medium"),
    "no gradient": torch.no_grad,
    "anomaly": torch.autograd.detect_anomaly,
    "flush denormal": flush_denormal,
}


@pytest.fixture(
    params=[
        *SETTINGS,
        *(pytest.param(name, marks=pytest.mark.slow) for name in LESS_LIKELY),
    ]
)
def setting(request):
    return {**SETTINGS, **LESS_LIKELY}[request.param]


def same(found, expected):
    """Bits and types."""
    for a, b in zip(found, expected, strict=True):
        assert type(a) is type(b)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype
            assert a.tobytes() == b.tobytes()
        else:
            assert a == b


def both(setting, action):
    """Do something by default and inside of a setting, and compare."""
    expected = list(action())
    with setting():
        found = list(action())
    same(found, expected)


@pytest.mark.parametrize("precision", ["float32", "half"])
def test_encode(setting, precision, tmp_path):
    BiLM.random(WIDE).save(tmp_path)

    def encode():
        bilm = BiLM.load(tmp_path).set_precision(precision)
        yield from bilm.encode(SENTENCES)
        yield from bilm.encode(SENTENCES, start="boundary")
        yield from bilm.encode(SENTENCES[:1])
        yield from dict(bilm.encode_each(SENTENCES)).values()
        layers, state = bilm.encode_stateful(SENTENCES)
        yield from layers
        yield from bilm.encode_stateful(SENTENCES, state)[0]
        with torch.no_grad():
            yield bilm.token_vectors(["a", "b"]).numpy()
        bilm.set_exact(precision == "float32")
        yield from bilm.encode(SENTENCES)
        yield bilm.fingerprint()

    both(setting, encode)


def test_weights(setting, tmp_path):
    """Random ones, and all formats."""

    def write_and_read():
        bilm = BiLM.random(tiny_config(), seed=3)
        yield bilm.fingerprint()
        for format in ("spacy-elmo", "bilm-tf"):
            yield bilm.save(tmp_path / format, format=format, dtype="float32")
            yield BiLM.load(tmp_path / format).fingerprint()

    both(setting, write_and_read)


def test_a_softmax(setting, tmp_path):
    """Its probabilities, and what pages say of it."""
    bilm = tiny_bilm()
    bilm.save(tmp_path, softmax=tiny_softmax(bilm))
    corpus = build_corpus([["the", "bank"], ["a", "boat", "lay"]], vocab=bilm.vocab)

    def read():
        softmax = weights.load_objective(tmp_path, bilm.config, bilm.vocab)
        yield softmax.vectors().numpy()
        yield weights.load(tmp_path).fingerprint
        for model in (LanguageModel(bilm, softmax), LanguageModel.load(tmp_path)):
            yield perplexity(model.eval(), corpus, progress=False).mean
        view = sentence_view(bilm, ["the", "bank"], softmax=softmax, about="")
        yield json.dumps(view.data)
        yield json.dumps(word_view(bilm, bank_contexts(9), word="bank").data)

    both(setting, read)


def docs_of(nlp):
    docs = list(nlp.pipe(["The cat sat.", "A dog, and another one.", "It"]))
    for doc in docs:
        yield doc.tensor
        yield doc._.elmo.layers
        yield similarity(doc[0], doc[-1])
        yield similarity(doc[0], doc[-1], layer=1)


@pytest.mark.parametrize("cached", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_nlp(setting, cached, tmp_path):
    BiLM.random(WIDE).save(tmp_path)

    def read():
        nlp = spacy.blank("en")
        elmo = nlp.add_pipe("elmo", config={"weights": str(tmp_path)})
        if cached:
            elmo.use_layer_cache("memory")
            yield from docs_of(nlp)
        yield from docs_of(nlp)
        yield nlp(Doc(nlp.vocab, words=SENTENCES[2])).tensor
        again = spacy.blank("en")
        again.add_pipe("elmo", config={"weights": str(tmp_path)})
        yield from docs_of(again.from_bytes(nlp.to_bytes()))

    both(setting, read)


@pytest.mark.parametrize("frozen", [True, False])
def test_update(setting, frozen):
    def learn():
        random.seed(0)
        np.random.seed(0)
        torch.manual_seed(0)
        nlp = pipeline(
            frozen=frozen,
            seed=3,
            sizes=EVEN_SIZES,
            learn_rate_factor=10.0,
            layer_norm=True,
        )
        batch = examples(nlp)
        optimizer = nlp.initialize(lambda: batch)
        for _ in range(3):
            yield from nlp.update(batch, sgd=optimizer, drop=0.2).values()
        yield from docs_of(nlp)
        yield from (p.detach().numpy() for p in nlp.get_pipe("elmo").bilm.parameters())
        with nlp.use_params(optimizer.averages):
            yield from docs_of(nlp)
        yield nlp.evaluate(batch)["tag_acc"]

    both(setting, learn)


def test_models_of_a_component(setting):
    """Models of a component's own: a biLM, and vectors of characters."""

    def learn():
        torch.manual_seed(0)
        np.random.seed(0)
        own = {
            "@architectures": "spacy-elmo.Embed.v1",
            "width": 16,
            "embed": {
                "@architectures": "spacy.CharacterEmbed.v2",
                "width": 16,
                "rows": 50,
                "nM": 4,
                "nC": 4,
                "include_static_vectors": False,
            },
            "elmo": LISTENER,
        }
        nlp = pipeline(frozen=False, seed=3, sizes=EVEN_SIZES, learn_rate_factor=1.0)
        nlp.remove_pipe("ner")
        nlp.remove_pipe("tagger")
        model = {"@architectures": "spacy.Tagger.v2", "tok2vec": own}
        nlp.add_pipe("tagger", config={"model": model})
        batch = examples(nlp)
        optimizer = nlp.initialize(lambda: batch)
        nlp.replace_listeners("elmo", "tagger", ["model.tok2vec.elmo"])
        for _ in range(3):
            yield from nlp.update(batch, sgd=optimizer).values()
        yield nlp.get_pipe("tagger").model.predict([eg.predicted for eg in batch])[0]

    both(setting, learn)


@pytest.mark.parametrize(
    ("objective", "optimizer"),
    [
        ("adaptive", "Muon"),
        pytest.param("full", "Adam", marks=pytest.mark.slow),
        pytest.param("sampled", "Adagrad", marks=pytest.mark.slow),
    ],
)
def test_pretrain(setting, objective, optimizer, tmp_path, monkeypatch):
    runs.write_text(tmp_path)
    more = {"full": {}, "adaptive": runs.ADAPTIVE, "sampled": runs.SAMPLED}[objective]
    text = runs.CONFIG.replace("Adam.v1", f"{optimizer}.v1")
    overrides = {"training.max_steps": 4, "training.dropout": 0.1}
    config = runs.config(tmp_path, text, overrides, **more)

    def train():
        output = tmp_path / "out"
        pretrain(config, output, overwrite=True)
        rows, arrays = runs.settled(output)
        yield rows
        yield sorted(arrays)
        yield from arrays.values()

    both(setting, train)


@pytest.mark.parametrize(
    "dtype",
    [
        "int8",
        *(
            pytest.param(dtype, marks=pytest.mark.slow)
            for dtype in ("float32", "float16")
        ),
    ],
)
def test_embed(setting, dtype, tmp_path):
    model, text = str(tmp_path / "model"), str(tmp_path / "a.txt")
    BiLM.random(WIDE).save(model)
    Path(text).write_text("A cat sat. It slept.\nAnother line.\n" * 3)

    def vectors():
        output = Path(tempfile.mkdtemp(dir=tmp_path)) / "vectors"
        embed.make_plan(model, [text], output, embed.Options(dtype=dtype))
        embed.run(output)
        yield from (document.vectors for document in embed.open(output))

    both(setting, vectors)


def test_numbers_so_small_that_their_squares_vanish(tmp_path):
    """NumPy raises FloatingPointError for them if it is told to."""
    bilm = BiLM.random(WIDE)
    with torch.no_grad():
        for name, weight in bilm.named_parameters():
            if "weight_p" in name or "projection" in name:
                weight.mul_(1e-25)
    bilm.save(tmp_path / "model")
    (tmp_path / "a.txt").write_text("A cat sat.\n")

    def read():
        nlp = spacy.blank("en")
        config = {"weights": str(tmp_path / "model"), "layer_norm": True}
        nlp.add_pipe("elmo", config=config)
        yield from docs_of(nlp)
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        nlp.to_disk(folder / "nlp")
        for chosen in ({"layers": "mix"}, {"dtype": "int8"}):
            output = folder / str(len(list(folder.iterdir())))
            options = embed.Options(**chosen)
            embed.make_plan(
                str(folder / "nlp"), [str(tmp_path / "a.txt")], output, options
            )
            embed.run(output)
            assert embed.verify(output, full=True).problems == []
            yield from (document.vectors for document in embed.open(output))

    both(SETTINGS["NumPy raises"], read)
