"""Training checkpoints of bilm-tf and the module of TensorFlow Hub: their own vectors
and losses, and every kind of bad file."""

import contextlib
import json
import os
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import spacy
import torch
from typer.testing import CliRunner

from spacy_elmo import BiLM
from spacy_elmo.bilm import weights as files
from spacy_elmo.bilm.objectives import FullSoftmax, SampledSoftmax
from spacy_elmo.bilm.weights.tensor_bundle import TensorBundle, unpack_snappy
from spacy_elmo.cli import app
from spacy_elmo.pipeline import component_config
from spacy_elmo.pretrain.model import LanguageModel

from .tensor_bundles import entry, field, write_bundle

GOLD = Path(__file__).parents[2] / "gold"
CHECKPOINT, DUMP = GOLD / "bilm_tf_checkpoint", GOLD / "bilm_tf_dump"
NAME = "model.ckpt-92"


@pytest.fixture
def folder(tmp_path):
    """A copy of the checkpoint."""
    for path in CHECKPOINT.iterdir():
        shutil.copy(path, tmp_path)
    return tmp_path


def arrays_of_gold():
    bundle = TensorBundle(CHECKPOINT / NAME)
    return {name: bundle.read(name) for name in bundle.entries}


def rewrite(folder, arrays, **how):
    """Write other arrays in the place of a checkpoint's."""
    for path in folder.glob(f"{NAME}.*"):
        path.unlink()
    write_bundle(folder / NAME, arrays, **how)


def run(*args):
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    assert result.exit_code == 0, result.output
    return result.output


# -- gold -------------------------------------------------------------------------


def test_layers_are_those_of_bilm_tf():
    bilm = BiLM.load(CHECKPOINT)
    sentences = json.loads((CHECKPOINT / "sentences.json").read_text())
    with np.load(CHECKPOINT / "expected.npz") as expected:
        for k, found in enumerate(bilm.encode(sentences)):
            assert abs(found - expected[f"sentence_{k}"]).max() < 1e-5
    assert bilm.fingerprint() == BiLM.load(DUMP).fingerprint()


def test_losses_are_those_of_bilm_tf():
    """Of a stream of held-out text, step by step, both directions in the mean. The last
    word of a sentence, </S> or <S>, is predicted, but never read: the stream goes on
    with the next sentence, as bilm-tf's batches do."""
    model = LanguageModel.load(CHECKPOINT)
    bilm, losses = model.bilm, []
    numbers = {word: i for i, word in enumerate(bilm.vocab)}
    state = bilm.zero_state(1)
    for line in (CHECKPOINT / "heldout.txt").read_text().splitlines():
        words = ["<S>", *line.split(), "</S>"]
        ids = torch.tensor([numbers.get(word, numbers["<UNK>"]) for word in words])
        order, n = torch.arange(len(words)), len(words) - 1
        with torch.no_grad():
            x_VH = bilm.token_vectors(words)
            both = order[:-1], order.flip(0)[:-1]
            ahead, back, state = bilm.read(x_VH, *both, [1] * n, state)
            log_p = model.softmax(ahead[-1], ids[1:])
            log_p = log_p + model.softmax(back[-1], ids.flip(0)[1:])
        losses.extend((-log_p / 2).tolist())
    with np.load(CHECKPOINT / "expected.npz") as expected:
        wanted = expected["stream_losses"]
    assert len(losses) == len(wanted) == 383
    assert abs(losses - wanted).max() < 1e-4


def test_sizes_are_read_without_data(folder):
    expected = BiLM.load(folder).config
    (folder / f"{NAME}.data-00000-of-00001").write_bytes(bytes(131864))
    assert files.read_config(folder) == expected
    with pytest.raises(ValueError, match=r"EL002.*checksum of array"):
        BiLM.load(folder)


@pytest.mark.parametrize("name", ["index", "data-00000-of-00001", "meta"])
def test_a_file_of_the_checkpoint(folder, name):
    (folder / f"{NAME}.meta").write_bytes(b"")
    assert files.find_format(folder / f"{NAME}.{name}").name == "bilm-tf-checkpoint"
    BiLM.load(folder / f"{NAME}.{name}")


def test_which_of_several_checkpoints(folder):
    """The one that `checkpoint` names, by whatever path of whatever system."""
    expected = BiLM.load(folder).fingerprint()
    other = {n: a + a.dtype.type(1) for n, a in arrays_of_gold().items()}
    write_bundle(folder / "model.ckpt-7", other)
    for path in (NAME, f"/home/author/run/{NAME}", f"C:\\\\run\\\\{NAME}"):
        (folder / "checkpoint").write_text(f'model_checkpoint_path: "{path}"\n')
        assert BiLM.load(folder).fingerprint() == expected
    assert BiLM.load(folder / "model.ckpt-7.index").fingerprint() != expected
    (folder / "checkpoint").unlink()
    with pytest.raises(ValueError, match=r"EL005.*model\.ckpt-7\.index, model\.ckpt-9"):
        BiLM.load(folder)
    (folder / "model.ckpt-7.index").unlink()
    assert BiLM.load(folder).fingerprint() == expected


@pytest.mark.parametrize("how", [{}, {"n_shards": 3}, {"per_block": 1}])
@pytest.mark.parametrize("snappy", [False, True])
def test_other_ways_to_write_a_checkpoint(folder, how, snappy):
    if snappy:
        pytest.importorskip("pyarrow")
    expected = BiLM.load(folder).fingerprint()
    rewrite(folder, arrays_of_gold(), snappy=snappy, **how)
    assert BiLM.load(folder).fingerprint() == expected


def renamed(how):
    """The names of other versions of TensorFlow, and of a bilm of one layer."""
    names = {
        "1.0": lambda n: n.replace("/kernel", "/weights").replace("/bias", "/biases"),
        "0.12": lambda n: (
            n.replace("/rnn/", "/RNN/")
            .replace("multi_rnn_cell/cell_", "MultiRNNCell/Cell")
            .replace("lstm_cell/projection/kernel", "LSTMCell/W_P_0")
            .replace("lstm_cell/kernel", "LSTMCell/W_0")
            .replace("lstm_cell/bias", "LSTMCell/B")
        ),
    }
    return {names[how](name): array for name, array in arrays_of_gold().items()}


@pytest.mark.parametrize("how", ["1.0", "0.12"])
def test_names_of_other_versions(folder, how):
    expected = BiLM.load(folder).fingerprint()
    rewrite(folder, renamed(how))
    assert BiLM.load(folder).fingerprint() == expected


def test_one_layer(folder, tmp_path):
    """bilm-tf wraps the cells of several layers alone, so that the names differ."""
    arrays = {
        name.replace("multi_rnn_cell/cell_0/", ""): array
        for name, array in arrays_of_gold().items()
        if "cell_1" not in name
    }
    rewrite(folder, arrays)
    options = json.loads((folder / "options.json").read_text())
    options["lstm"]["n_layers"] = 1
    (folder / "options.json").write_text(json.dumps(options))
    with np.load(CHECKPOINT / "expected.npz") as expected:
        sentences = json.loads((CHECKPOINT / "sentences.json").read_text())
        for k, found in enumerate(BiLM.load(folder).encode(sentences)):
            assert abs(found - expected[f"sentence_{k}"][:2]).max() < 1e-5


# -- the softmax ------------------------------------------------------------------


def test_the_softmax_is_trained_as_before(folder):
    assert isinstance(softmax := LanguageModel.load(folder).softmax, SampledSoftmax)
    assert softmax.n_samples == 20
    options = json.loads((folder / "options.json").read_text())
    (folder / "options.json").write_text(json.dumps({**options, "sample_softmax": 0}))
    assert type(LanguageModel.load(folder).softmax) is FullSoftmax


def test_without_the_right_words(folder):
    (folder / "vocab.txt").write_text("<S>\n</S>\n<UNK>\n")
    BiLM.load(folder)
    with pytest.raises(ValueError, match=r"EL003.*3 words.*224 rows"):
        LanguageModel.load(folder)
    (folder / "vocab.txt").unlink()
    BiLM.load(folder)
    with pytest.raises(ValueError, match=r"EL022.*softmax.*vocab\.txt"):
        LanguageModel.load(folder)
    assert "EL022" in run("convert", folder, folder / "out")
    assert not files.has_objective(folder / "out")


@pytest.mark.parametrize("name", ["softmax/W", "softmax/b"])
def test_a_softmax_with_nan(folder, name):
    arrays = arrays_of_gold()
    arrays[f"lm/{name}"] = np.full_like(arrays[f"lm/{name}"], np.nan)
    rewrite(folder, arrays)
    with pytest.raises(ValueError, match=f"EL008.*'{name}'"):
        LanguageModel.load(folder)


def test_what_is_of_modules_alone_does_no_harm(folder):
    whole = np.zeros(3, "i8")
    rewrite(folder, {**arrays_of_gold(), "aggregation/weights": whole})
    assert isinstance(LanguageModel.load(folder).softmax, SampledSoftmax)


def test_words_that_share_their_table_with_the_softmax(tmp_path):
    rng, n = np.random.default_rng(0), 30
    drawn = lambda *shape: rng.normal(size=shape).astype("f4")  # noqa: E731
    arrays = {"lm/embedding": drawn(n, 6), "lm/softmax/b": drawn(n)}
    for rnn in ("RNN_0", "RNN_1"):
        cell = f"lm/{rnn}/rnn/lstm_cell"
        arrays |= {f"{cell}/kernel": drawn(12, 24), f"{cell}/bias": drawn(24)}
    write_bundle(tmp_path / "model.ckpt-1", arrays)
    lstm = {"dim": 6, "projection_dim": 6, "n_layers": 1}
    options = {"bidirectional": True, "lstm": lstm, "share_embedding_softmax": True}
    (tmp_path / "options.json").write_text(json.dumps(options))
    words = ["<S>", "</S>", "<UNK>", *(f"w{i}" for i in range(n - 3))]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    model = LanguageModel.load(tmp_path)
    assert np.array_equal(model.softmax.vectors().numpy(), arrays["lm/embedding"])
    assert torch.equal(model.bilm.token_encoder.embedding, model.softmax.vectors())


def test_commands(folder, tmp_path):
    text = folder / "heldout.txt"
    split = ["--tokenizer", "whitespace", "--no-sentences"]
    before = json.loads(run("perplexity", folder, text, *split, "--json"))
    assert before["mean"] < 25
    run("convert", folder, tmp_path / "own")
    assert json.loads(
        run("perplexity", tmp_path / "own", text, *split, "--json")
    ) == pytest.approx(before)
    assert "bilm-tf-checkpoint" in run("info", folder)
    for model in (folder, tmp_path / "own"):
        page = tmp_path / "page.html"
        run("explore", "sentence", model, "The ball fell .", "--output", page)
        assert '"surprise":null' not in page.read_text().replace(" ", "")
    assert "without context" in run("explore", "word", folder, text, "--word", "the")


@pytest.mark.slow
def test_training_goes_on(folder, tmp_path):
    """With the softmax of the checkpoint, and further down from its perplexity."""
    text = folder / "heldout.txt"
    (tmp_path / "run.cfg").write_text(
        f"""[text]
        train = ["{text}"]
        dev = ["{text}"]
        tokenizer = "whitespace"
        sentences = false
        [training]
        init = "{folder}"
        batch_size = 4
        unroll_steps = 10
        epochs = 20
        threads = 1
        """.replace("    ", "")
    )
    run("pretrain", tmp_path / "run.cfg", "--output", tmp_path / "run")
    split = ["--tokenizer", "whitespace", "--no-sentences", "--json"]
    before = json.loads(run("perplexity", folder, text, *split))
    after = json.loads(run("perplexity", tmp_path / "run/model-best", text, *split))
    assert after["mean"] < before["mean"] < 25
    run("curve", tmp_path / "run", "--output", tmp_path / "curve.svg")


# -- TensorFlow Hub ---------------------------------------------------------------

MIX = {"aggregation/weights": [0.3, -1.2, 2.0], "aggregation/scaling": 1.7}


def hub_names(name):
    """The names of the graph that the module was made from."""
    if not name.startswith("lm/") or name.endswith("/Adagrad") or "softmax" in name:
        return None
    name = name.replace("/rnn/multi_rnn_cell/cell_", "/RNN/MultiRNNCell/Cell")
    return name.replace("lm/", "bilm/").replace("/lstm_cell/", "/rnn/lstm_cell/")


@pytest.fixture(params=[262, 261])
def module(request, tmp_path):
    """The checkpoint as a module; with the row of the absent character, or without."""
    arrays = {hub_names(name): array for name, array in arrays_of_gold().items()}
    del arrays[None]
    if request.param == 262:
        table = arrays["bilm/char_embed"]
        arrays["bilm/char_embed"] = np.concatenate([np.zeros_like(table[:1]), table])
    arrays |= {name: np.array(value, dtype="f4") for name, value in MIX.items()}
    arrays["bilm/Variable"] = np.zeros((128, 24), dtype="f4")
    arrays["bilm/step"] = np.zeros((), dtype="i8")
    write_bundle(tmp_path / "elmo/variables/variables", arrays)
    (tmp_path / "elmo/tfhub_module.pb").write_bytes(b"\x08\x03")
    return tmp_path / "elmo"


def test_module_has_the_vectors_of_its_checkpoint(module):
    expected = BiLM.load(CHECKPOINT)
    for path in (
        module,
        module / "tfhub_module.pb",
        module / "variables",
        module / "variables/variables.index",
    ):
        found = BiLM.load(path)
        assert found.config == expected.config == files.read_config(path)
        assert found.fingerprint() == expected.fingerprint()
    assert files.find_format(module).name == "tf-hub"


def test_the_mix_of_a_module_is_that_of_the_component(module, tmp_path):
    config = component_config(module)
    assert config["mix_weights"] == pytest.approx(MIX["aggregation/weights"])
    assert config["gamma"] == pytest.approx(1.7)
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={**config, "weights": str(module)})
    doc = nlp("The umpire called the ball out .")
    layers = BiLM.load(module).encode([[token.text for token in doc]])[0]
    shares = np.exp(MIX["aggregation/weights"])
    expected = 1.7 * np.tensordot(shares / shares.sum(), layers, axes=1)
    assert abs(doc.tensor - expected).max() < 1e-5
    assert "mix_weights = [" in run("info", module, "--config")
    assert "trained mix" in run("info", module)
    # It is kept by our own format.
    run("convert", module, tmp_path / "own")
    assert component_config(tmp_path / "own")["gamma"] == config["gamma"]
    BiLM.load(tmp_path / "own").save(tmp_path / "again")
    assert files.read_mix(tmp_path / "again") == files.read_mix(module)


def test_a_mix_that_is_not_used_is_said(module):
    with pytest.warns(UserWarning, match=r"ELW60.*mix_weights = \[0\.3, -1\.2, 2\.0"):
        spacy.blank("en").add_pipe("elmo", config={"weights": str(module)})


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("EL163", {"bilm/char_embed": np.zeros((300, 4), "f4")}),
        ("EL006", {"bilm/char_embed": None}),
        ("EL006", {"bilm/RNN_0/RNN/MultiRNNCell/Cell0/rnn/lstm_cell/bias": None}),
        ("EL006", {"bilm/CNN/b_cnn_0": None}),
        ("EL007", {"bilm/CNN_proj/b_proj": np.zeros(3, "f4")}),
        ("EL007", {"aggregation/weights": np.zeros(2, "f4")}),
        ("EL008", {"aggregation/scaling": np.array(np.nan, "f4")}),
        ("EL009", {"bilm/CNN/b_cnn_0": np.zeros(4, "i4")}),
        ("EL020", {"bilm/CNN/W_cnn_0": np.zeros((1, 0, 4, 4), "f4")}),
        ("EL006", {"bilm/CNN/W_cnn_0": np.zeros(4, "f4")}),
    ],
)
def test_bad_modules(module, code, change):
    bundle = TensorBundle(module / "variables/variables")
    arrays = {n: bundle.read(n) for n, e in bundle.entries.items() if e.dtype}
    arrays |= change
    arrays = {name: array for name, array in arrays.items() if array is not None}
    write_bundle(module / "variables/variables", arrays)
    with pytest.raises(ValueError, match=code):
        BiLM.load(module)


# -- bad files --------------------------------------------------------------------

BIAS = "lm/CNN/b_cnn_0"


def slice_of(values):
    return entry(1, (4,), 0, 0, b"") + field(7, values)


ENTRIES = {
    "of whole numbers": ("EL009", entry(3, (4,), 0, 0, bytes(16))),
    "in slices": (r"EL009.*in slices", slice_of(b"\x0a\x00")),
    "in no file": ("EL009", entry(1, (4,), 9, 0, bytes(16))),
    "outside the file": ("EL009", entry(1, (4,), 0, 1 << 40, bytes(16))),
    "larger than it is": ("EL009", entry(1, (1 << 40,), 0, 0, bytes(16))),
    "of less than no size": ("EL009", entry(1, ((1 << 64) - 4,), 0, 0, bytes(16))),
    "of many axes": ("EL002", entry(1, (1,) * 99, 0, 0, bytes(4))),
    "of another shape": ("EL007", entry(1, (2,), 0, 0, bytes(8))),
    "with another checksum": ("EL002", entry(1, (4,), 0, 0, b"x" * 16)),
    "that is no entry": ("EL002", b"\xff\xff\xff"),
    "with text for a number": ("EL002", field(1, b"1")),
    "with a number for text": ("EL002", field(2, 1)),
    "with text for a size": ("EL002", field(2, field(2, field(1, b"4")))),
}


@pytest.mark.parametrize("case", ENTRIES)
def test_bad_entries(folder, case):
    code, value = ENTRIES[case]
    rewrite(folder, arrays_of_gold(), change={BIAS: value})
    with pytest.raises(ValueError, match=code):
        BiLM.load(folder)


def test_arrays_that_are_one(folder):
    """Each would take memory of its own."""
    arrays = arrays_of_gold()
    data = arrays["lm/softmax/W"].tobytes()
    at = TensorBundle(CHECKPOINT / NAME).entries["lm/softmax/W"].offset
    same = {f"lm/CNN/more_{i}": entry(1, (224, 12), 0, at, data) for i in range(20)}
    rewrite(folder, arrays, change=same)
    with pytest.raises(ValueError, match=r"EL009.*than its data"):
        BiLM.load(folder)


HEADERS = {
    "no data files": field(1, 0),
    "a million data files": field(1, 1_000_000),
    "big-endian": field(1, 1) + field(2, 1),
}


@pytest.mark.parametrize("case", HEADERS)
def test_bad_headers(folder, case):
    rewrite(folder, arrays_of_gold(), change={"": HEADERS[case]})
    with pytest.raises(ValueError, match="EL002"):
        BiLM.load(folder)


def test_long_names_that_share_their_beginning_take_no_memory(folder):
    """The index has most of them in a few bytes each."""
    long = {f"x{'y' * 3000}{n:04}": np.zeros(0, "f4") for n in range(1500)}
    rewrite(folder, {**arrays_of_gold(), **long})
    assert (folder / f"{NAME}.index").stat().st_size < 1_000_000
    with pytest.raises(ValueError, match=r"EL002.*more than 4,194,304 bytes"):
        BiLM.load(folder)


DAMAGE = {
    "no index": ("EL001", lambda f: (f / f"{NAME}.index").unlink()),
    "no options": ("EL001", lambda f: (f / "options.json").unlink()),
    "no data": ("EL002", lambda f: (f / f"{NAME}.data-00000-of-00001").unlink()),
    "empty index": ("EL002", lambda f: (f / f"{NAME}.index").write_bytes(b"")),
    "huge index": ("EL002", lambda f: os.truncate(f / f"{NAME}.index", 10**10)),
    "data cut": (
        "EL009",
        lambda f: os.truncate(f / f"{NAME}.data-00000-of-00001", 9999),
    ),
    "another named": (
        r"EL005.*but not other\.index",
        lambda f: (f / "checkpoint").write_text('model_checkpoint_path: "other"'),
    ),
    "names nothing": ("EL002", lambda f: (f / "checkpoint").write_text("x")),
    "names its folder": (
        "EL002",
        lambda f: (f / "checkpoint").write_text('model_checkpoint_path: "../"'),
    ),
    "other options": ("EL003", lambda f: (f / "options.json").write_text("{}")),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_folders(folder, case):
    code, damage = DAMAGE[case]
    damage(folder)
    with pytest.raises((ValueError, FileNotFoundError), match=code):
        BiLM.load(folder)


def test_any_flipped_bit_of_the_index_is_found(folder):
    path = folder / f"{NAME}.index"
    whole, rng = path.read_bytes(), random.Random(0)
    footer = len(whole) - 48
    for at in [*rng.sample(range(footer), 150), *range(len(whole) - 8, len(whole))]:
        data = bytearray(whole)
        data[at] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        # A block that TensorFlow leaves empty is not read.
        with contextlib.suppress(ValueError):
            found = TensorBundle(folder / NAME)
            assert found.entries == TensorBundle(CHECKPOINT / NAME).entries


@pytest.mark.parametrize("name", ["index", "data-00000-of-00001"])
def test_cut_anywhere(folder, name):
    path = folder / f"{NAME}.{name}"
    whole = path.read_bytes()
    for end in range(0, len(whole) - 1000, len(whole) // 60):  # slots are not read
        path.write_bytes(whole[:end])
        with pytest.raises(ValueError, match=r"EL002|EL009"):
            LanguageModel.load(folder)


def test_snappy_is_what_a_peer_packs():
    pyarrow = pytest.importorskip("pyarrow")
    rng = random.Random(0)
    for size in [0, 1, 59, 60, 61, 257, 5000, 70_000]:
        for letters in (1, 2, 200):
            data = bytes(rng.randrange(letters) for _ in range(size))
            packed = pyarrow.compress(data, codec="snappy", asbytes=True)
            assert unpack_snappy(packed, size) == data
            with pytest.raises(ValueError, match="bytes"):
                unpack_snappy(packed + b"\0", size - 1)


def test_bad_snappy():
    rng = random.Random(0)
    for _ in range(3000):
        data = rng.randbytes(rng.randrange(40))
        with contextlib.suppress(ValueError):
            assert len(unpack_snappy(b"\x90\x4e" + data, 10_000)) == 10_000
