"""What is saved is what is loaded, in every format that can be written."""

import json
import os
import warnings

import h5py
import numpy as np
import pytest

from spacy_elmo import BiLM
from spacy_elmo.bilm.weights import Mix
from spacy_elmo.bilm.weights.format import WritableFormat, formats

from ...models import OURS_TO_WRITE, SENTENCES, same_layers, tiny_config


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"n_layers": 3, "activation": "tanh", "cell_clip": None, "proj_clip": None},
        {"token_projection": False, "projection_dim": 16, "hidden_dim": 20},
        {"lstm_projection": False, "projection_dim": 12},
    ],
)
def test_round_trips(tmp_path, changes):
    bilm = BiLM.random(
        tiny_config(**changes), seed=5, vocab=["<S>", "</S>", "<UNK>", "고양이"]
    )
    written = [name for name, f in formats().items() if isinstance(f, WritableFormat)]
    assert {"spacy-elmo", "bilm-tf", "elmo-extension-npz"} <= {*written}
    for name in written:
        bilm.save(tmp_path / name, format=name)
        loaded = BiLM.load(tmp_path / name)
        assert loaded.config == bilm.config
        assert loaded.vocab == bilm.vocab
        assert loaded.fingerprint() == bilm.fingerprint()
        assert same_layers(loaded, bilm)
        matching = [n for n, f in formats().items() if f.matches(tmp_path / name)]
        assert matching == [name]


def test_a_unicode_form_is_kept_or_the_loss_is_warned_of(tmp_path):
    bilm = BiLM.random(tiny_config())
    bilm.form = "NFC"
    with warnings.catch_warnings(action="error"):
        bilm.save(tmp_path / "kept")
    assert BiLM.load(tmp_path / "kept").form == "NFC"
    with pytest.warns(UserWarning, match=r"ELW72.*'bilm-tf'.*NFC"):
        bilm.save(tmp_path / "lost", format="bilm-tf")
    assert BiLM.load(tmp_path / "lost").form is None


def test_a_mix_is_kept_or_the_loss_is_warned_of(tmp_path):
    bilm = BiLM.random(tiny_config())
    bilm.mix = Mix((0.5, -0.25, 1.0), 2.0)
    with warnings.catch_warnings(action="error"):
        bilm.save(tmp_path / "kept")
    assert BiLM.load(tmp_path / "kept").mix == bilm.mix
    with pytest.warns(UserWarning, match=r"ELW73.*bilm-tf.*0\.5, -0\.25, 1\.0.*2\.0"):
        bilm.save(tmp_path / "lost", format="bilm-tf")
    assert BiLM.load(tmp_path / "lost").mix is None


def test_written_hdf5_is_the_one_that_was_read(gold, tmp_path):
    """To the bit: names, shapes and values."""
    source = gold / "allennlp" / "test_fixtures_elmo"
    (tmp_path / "options.json").symlink_to(source / "options.json")
    (tmp_path / "weights.hdf5").symlink_to(source / "lm_weights.hdf5")
    BiLM.load(tmp_path).save(tmp_path / "out", format="bilm-tf")
    with (
        h5py.File(source / "lm_weights.hdf5") as theirs,
        h5py.File(tmp_path / "out" / "weights.hdf5") as ours,
    ):
        names = {"theirs": [], "ours": []}
        theirs.visititems(lambda n, d: names["theirs"].append(n))
        ours.visititems(lambda n, d: names["ours"].append(n))
        assert names["theirs"] == names["ours"]
        for name in names["ours"]:
            if isinstance(ours[name], h5py.Dataset):
                assert np.array_equal(ours[name][...], theirs[name][...])
                assert ours[name].dtype == np.float32


def test_half_precision_is_near_and_half_the_size(tiny, tmp_path):
    tiny.save(tmp_path / "full")
    tiny.save(tmp_path / "half", dtype="float16")
    sizes = [
        (tmp_path / n / "weights.safetensors").stat().st_size for n in ("full", "half")
    ]
    assert sizes[1] < 0.7 * sizes[0]
    for a, b in zip(
        BiLM.load(tmp_path / "half").encode(SENTENCES), tiny.encode(SENTENCES)
    ):
        assert 0 < abs(a - b).max() < 0.01


def test_word_input_round_trip(tmp_path):
    words = ["<S>", "</S>", "<UNK>", "The", "cat"]
    bilm = BiLM.random(tiny_config(n_words=len(words)), vocab=words)
    for format in OURS_TO_WRITE:
        bilm.save(tmp_path / format, format=format)
        loaded = BiLM.load(tmp_path / format)
        assert loaded.config.n_words == 5
        assert same_layers(loaded, bilm)
        (unknown, same), (known, _) = (
            loaded.encode([["dog"], ["<UNK>"]]),
            loaded.encode([["The"], ["cat"]]),
        )
        assert np.allclose(unknown, same, atol=1e-6)
        assert not np.allclose(unknown, known, atol=1e-2)


def test_any_word_of_a_vocabulary(tmp_path):
    vocab = ["<S>", "</S>", "<UNK>", "a\rb", "\u2028", "c\r", "나"]
    BiLM.random(tiny_config(), vocab=vocab).save(tmp_path)
    assert BiLM.load(tmp_path).vocab == vocab
    # Whoever edits the words removes their hash.
    config = json.loads((tmp_path / "config.json").read_text())
    del config["vocab_sha256"], config["sha256"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "vocab.txt").write_bytes("<S>\r\n</S>\r\n나\r\n".encode())
    assert BiLM.load(tmp_path).vocab == ["<S>", "</S>", "나"]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_a_vocabulary_from_another_system(tiny, tmp_path, mark, end, last):
    """That of a published model, which has no checksum, as Windows writes it."""
    vocab = ["<S>", "</S>", "<UNK>", "cat", "나"]
    tiny.save(tmp_path, format="bilm-tf")
    text = mark + end.join(vocab) + (end if last else "")
    (tmp_path / "vocab.txt").write_bytes(text.encode())
    assert BiLM.load(tmp_path).vocab == vocab


@pytest.mark.parametrize("format", OURS_TO_WRITE)
@pytest.mark.parametrize(
    "vocab",
    [[], ["a\r"], ["a\r", "b\r"], ["a\r", "b"], ["\ufeffa"], ["a\nb"], ["\udce9"]],
)
def test_a_vocabulary_that_lines_can_not_hold(tmp_path, tiny, vocab, format):
    tiny.save(tmp_path, format=format)
    with pytest.raises(ValueError, match="EL027"):
        BiLM.random(tiny_config(), seed=9, vocab=vocab).save(tmp_path, format=format)
    assert same_layers(BiLM.load(tmp_path), tiny)  # which is still there


def test_loaded_weights_are_not_the_file(tiny, tmp_path):
    """A file that is cut short later must not take the process down."""
    tiny.save(tmp_path)
    loaded = BiLM.load(tmp_path)
    os.truncate(tmp_path / "weights.safetensors", 10)
    assert same_layers(loaded, tiny)


def test_more_settings_in_a_later_version(tiny, tmp_path):
    """A folder that was written before a setting was known loads with its default."""
    tiny.save(tmp_path)
    header = json.loads((tmp_path / "config.json").read_text())
    del header["bilm"]["word_dim"], header["bilm"]["characters"], header["sha256"]
    (tmp_path / "config.json").write_text(json.dumps(header))
    assert same_layers(BiLM.load(tmp_path), tiny)
