"""Parity with vectors that AllenNLP and bilm-tf computed: for the small models in
tests/gold, and for their own published weights where those are at hand."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from spacy_elmo.bilm.bilm import BiLM

TOLERANCE = 1e-5
HERE = Path(__file__).parents[1] / "gold"
MODELS = ["relu_2layers", "tanh_2highways", "three_layers"]
SOURCES = {
    "allennlp": ("allennlp/test_fixtures_elmo", "sentences.json"),
    "bilm-tf": ("bilm-tf/model", "lm_embeddings_sentences.json"),
}


@pytest.fixture(scope="module")
def ten_sentences():
    return json.loads((HERE / "sentences.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("batched", [True, False])
def test_shipped_gold(name, batched, ten_sentences):
    bilm = BiLM.load(HERE / name)
    if batched:
        found = bilm.encode(ten_sentences)
    else:
        found = [bilm.encode([sentence])[0] for sentence in ten_sentences]
    with np.load(HERE / name / "expected.npz") as expected:
        for k, layers in enumerate(found):
            assert layers.shape == expected[f"alone_{k}"].shape
            assert abs(layers - expected[f"alone_{k}"]).max() < TOLERANCE


@pytest.mark.parametrize("name", MODELS)
def test_shipped_gold_with_carried_state(name, ten_sentences):
    bilm = BiLM.load(HERE / name)
    state = None
    with np.load(HERE / name / "expected.npz") as expected:
        for k in range(3):
            batch = [ten_sentences[i % 10] for i in (k, k + 3, k + 9)]
            layers, state = bilm.encode_stateful(batch, state)
            for b, found in enumerate(layers):
                wanted = expected[f"stateful_{k}_{b}"]
                assert found.shape == wanted.shape
                assert abs(found - wanted).max() < TOLERANCE


def test_carried_state_of_batches_of_any_size(ten_sentences):
    """As AllenNLP's encoder carries it (vectors by simple-elmo-pytorch 0.2, which has
    it): a smaller batch continues the first rows, a larger one has new rows of
    zeros."""
    bilm, state, first = BiLM.load(HERE / "relu_2layers"), None, 0
    with np.load(HERE / "batch_sizes.npz") as expected:
        for n, size in enumerate(expected["sizes"]):
            batch = [ten_sentences[(first + i) % 10] for i in range(size)]
            layers, state = bilm.encode_stateful(batch, state)
            first += size
            assert len(layers) == size
            for i, found in enumerate(layers):
                assert abs(found - expected[f"{n}_{i}"]).max() < TOLERANCE
    same = bilm.encode_stateful([], state)
    assert same == ([], state)


def load(folder, tmp_path, *, options="options.json", weights="lm_weights.hdf5"):
    (tmp_path / "options.json").symlink_to(folder / options)
    (tmp_path / "weights.hdf5").symlink_to(folder / weights)
    return BiLM.load(tmp_path)


def batches(folder, name):
    """10 batches of 3 sentences: the files hold 3 documents of 10 sentences."""
    documents = json.loads((folder / name).read_text())
    return [[document[k].split() for document in documents] for k in range(10)]


@pytest.mark.parametrize("source", SOURCES)
def test_stateful_gold_of_all_30_sentences(gold, tmp_path, source):
    folder, name = gold / SOURCES[source][0], SOURCES[source][1]
    bilm = load(folder, tmp_path)
    state, worst, n = None, 0.0, 0
    for k, batch in enumerate(batches(folder, name)):
        layers, state = bilm.encode_stateful(batch, state)
        for b, found in enumerate(layers):
            with h5py.File(folder / f"lm_embeddings_{b}.hdf5") as file:
                forward, backward = file[str(k)][...]
            expected = np.concatenate([forward, backward], axis=1)
            worst = max(worst, abs(found[-1] - expected).max())
            n += 1
    assert n == 30
    assert worst < TOLERANCE


@pytest.mark.parametrize("stateful", [True, False])
def test_all_layers_with_and_without_carried_state(gold, tmp_path, stateful):
    folder = gold / SOURCES["allennlp"][0]
    bilm = load(folder, tmp_path)
    name = "layers_stateful.npz" if stateful else "layers_stateless.npz"
    expected = np.load(gold / "generated_by_allennlp" / name)
    state, worst = None, 0.0
    for k, batch in enumerate(batches(folder, "sentences.json")):
        if stateful:
            layers, state = bilm.encode_stateful(batch, state)
        else:
            layers = bilm.encode(batch)
        for b, found in enumerate(layers):
            worst = max(worst, abs(found - expected[f"batch{k}_sent{b}"]).max())
    assert worst < TOLERANCE


def test_edge_tokens(gold, tmp_path):
    bilm = load(gold / SOURCES["allennlp"][0], tmp_path)
    folder = gold / "generated_by_allennlp"
    sentences = json.loads((folder / "edge_tokens.json").read_text())
    expected = np.load(folder / "edge_tokens_keep_boundaries.npz")
    for k, found in enumerate(bilm.encode(sentences)):
        assert abs(found - expected[str(k)][:, 1:-1]).max() < TOLERANCE


def test_character_ids(gold):
    from spacy_elmo.bilm.words import encode_words

    folder = gold / "generated_by_allennlp"
    sentences = json.loads((folder / "edge_tokens.json").read_text())
    expected = np.load(folder / "edge_char_ids.npy")
    for sentence, ids in zip(sentences, expected):
        assert (encode_words(sentence) == ids[: len(sentence)]).all()


def test_word_embedding_input_equals_the_characters(gold, tmp_path):
    """The published table of token vectors, used as word input, must give the layers
    that the character input gives."""
    folder = gold / SOURCES["allennlp"][0]
    characters = load(folder, tmp_path)
    words = (folder / "vocab_test.txt").read_text().split()
    made = tmp_path / "words"
    made.mkdir()
    with (
        h5py.File(folder / "lm_weights.hdf5") as lm,
        h5py.File(folder / "elmo_token_embeddings.hdf5") as table,
        h5py.File(made / "weights.hdf5", "w") as file,
    ):
        for rnn in ("RNN_0", "RNN_1"):
            lm.copy(rnn, file)
        file["embedding"] = table["embedding"][...]
        # What the table's rows stand for: check it against the char-CNN, not the docs.
        rows = table["embedding"][...]
    by_characters = np.concatenate(
        characters.encode([[word] for word in words]), axis=1
    )
    n = len(words)
    first = next(
        k
        for k in range(len(rows))
        if abs(rows[k] - by_characters[0, 0, :16]).max() < 1e-4
    )
    names = [*(f"<special {k}>" for k in range(first)), *words]
    names = names[: len(rows)] + [f"<rest {k}>" for k in range(len(rows) - len(names))]
    # <S> and </S> must be rows too; take the published vectors of the boundaries.
    rows = np.concatenate([rows, boundary_rows(characters)])
    names += ["<S>", "</S>"]
    with h5py.File(made / "weights.hdf5", "a") as file:
        del file["embedding"]
        file["embedding"] = rows
    (made / "vocab.txt").write_text("\n".join(names), encoding="utf-8")
    options = json.loads((folder / "options.json").read_text())
    (made / "options.json").write_text(json.dumps({"lstm": options["lstm"]}))
    found = BiLM.load(made)
    assert found.config.n_words == len(names) and n > 400
    sentence = words[:20]
    assert (
        abs(found.encode([sentence])[0] - characters.encode([sentence])[0]).max() < 1e-4
    )


def boundary_rows(bilm):
    import torch

    with torch.no_grad():
        return bilm.token_vectors(["<S>", "</S>"]).numpy()


@pytest.mark.parametrize("language", ["es", "fr", "it"])
def test_multilingual_files_load(gold, tmp_path, language):
    folder = gold / "allennlp" / "v0.9.0_elmo_multilingual" / language
    bilm = load(folder, tmp_path, weights="weights.hdf5")
    (layers,) = bilm.encode([["¿", "Qué", "?"]])
    assert layers.shape == (3, 3, 32) and np.isfinite(layers).all()
