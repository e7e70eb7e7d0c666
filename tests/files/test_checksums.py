"""One flipped bit anywhere in a file of this package is refused with a coded error."""

import json
import warnings

import pytest
import torch

from spacy_elmo import BiLM
from spacy_elmo.bilm.objectives import FILE, AdaptiveSoftmax, FullSoftmax
from spacy_elmo.bilm.words import MARKS
from spacy_elmo.errors import ElmoError
from spacy_elmo.files import json_with_checksum, read_json
from spacy_elmo.models import read_card
from spacy_elmo.pretrain import checkpoint
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.pretrain.optimizers import adam
from spacy_elmo.text import Request, prepare
from spacy_elmo.text.shards import open_corpus

from ..models import tiny_config

VOCAB = ["<S>", "</S>", "<UNK>", "a", "고양이"]
CARD = {"note": "made here, 1e-05", "figures": {"loss": 1e-05, "words": [1, 2.5]}}


def flipped(path):
    """Flip one bit of a file after the other: some of all, more of both ends."""
    whole = path.read_bytes()
    n = len(whole)
    ends = {*range(0, min(n, 300), 11), *range(max(0, n - 100), n, 7)}
    for at in sorted(ends | {*range(3, n, n // 40 + 1)}):
        bit = 1 << (at * 5 + at // 8) % 8
        path.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
        yield at
    path.write_bytes(whole)


def assert_refused(path, read):
    read()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for at in flipped(path):
            try:
                read()
            except ElmoError:
                continue
            pytest.fail(f"bit {at} of {path} was read")
    read()


def adaptive(width, n_words):
    return AdaptiveSoftmax(width, n_words, [4])


@pytest.mark.parametrize(
    ("name", "make"),
    [
        *((name, FullSoftmax) for name in ("config.json", "weights.safetensors")),
        *((name, FullSoftmax) for name in ("vocab.txt", "card.json", FILE)),
        (FILE, adaptive),
    ],
)
def test_model_folder(tmp_path, name, make):
    bilm = BiLM.random(tiny_config(), vocab=VOCAB)
    bilm.save(tmp_path, softmax=make(6, len(VOCAB)), card=CARD)

    def read():
        LanguageModel.load(tmp_path)
        assert read_card(tmp_path)["figures"] == CARD["figures"]

    assert_refused(tmp_path / name, read)


def test_alphabet(tmp_path):
    alphabet = [*MARKS, "a", "é", "고"]
    config = tiny_config(characters="alphabet", n_characters=len(alphabet) + 1)
    bilm = BiLM.random(config)
    bilm.alphabet = alphabet
    bilm.save(tmp_path)
    assert_refused(tmp_path / "alphabet.json", lambda: BiLM.load(tmp_path))


def test_prepared_text(tmp_path):
    (tmp_path / "text").write_text("The cat sat.\n고양이가 잔다\n" * 20)
    output = tmp_path / "prepared"
    prepare([tmp_path / "text"], output, Request(), progress=False)
    files = sorted(output.iterdir())
    assert len(files) == 6
    for path in files:
        assert_refused(path, lambda: open_corpus(output))


def test_checkpoint(tmp_path):
    torch.manual_seed(0)
    bilm = BiLM.random(tiny_config(), vocab=VOCAB)
    model = LanguageModel(bilm, FullSoftmax(6, len(VOCAB)))
    optimizers = adam().make(dict(model.named_parameters()), {})
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizers[0].step()
    progress = {"step": 1, "n_steps": 2, "seconds": 1e-05, "recent": []}
    progress |= {"identity": {}, "results": {"commands": [{"command": "a é"}]}}
    state = bilm.zero_state(2)
    checkpoint.save(tmp_path, model, optimizers, state, progress)

    def read():
        checkpoint.read_progress(tmp_path)
        checkpoint.load(tmp_path, model, optimizers)

    assert_refused(tmp_path / checkpoint.FILE, read)


def test_files_without_a_checksum_load_with_a_warning(tmp_path):
    """Whoever edits a file removes its checksum."""
    BiLM.random(tiny_config(), vocab=VOCAB).save(tmp_path, card=CARD)
    for name in ("config.json", "card.json"):
        path = tmp_path / name
        entries = json.loads(path.read_text(encoding="utf-8"))
        del entries["sha256"]
        path.write_text(json.dumps(entries), encoding="utf-8")
    with pytest.warns(UserWarning, match=r"ELW52.*config\.json"):
        BiLM.load(tmp_path)
    with pytest.warns(UserWarning, match=r"ELW52.*card\.json"):
        read_card(tmp_path)


def test_an_entry_of_that_name_is_not_mistaken():
    entries = {"sha256": "no checksum", "a": 1}
    assert read_json(json_with_checksum({"a": 1}), "file") == {"a": 1}
    with pytest.warns(UserWarning, match="ELW52"):
        assert read_json(json.dumps(entries), "file") == entries
    with pytest.warns(UserWarning, match="ELW52"):
        assert read_json("{}", "file") == {}
    assert read_json("[1]", "file") == [1]
