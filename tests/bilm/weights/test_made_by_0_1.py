"""Model folders that version 0.1 wrote are read as they are, and are written alike.

`made_by_0_1/` holds what it wrote for one random biLM as float32 and float16 with
softmax and card and as bilm-tf, for another with word-embedding input, and the layers
that it computed from each.
"""

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from spacy_elmo import BiLM
from spacy_elmo.bilm import weights as files
from spacy_elmo.models import read_card
from spacy_elmo.pretrain.model import LanguageModel

MADE = Path(__file__).parent / "made_by_0_1"
SENTENCES = [["The", "cat", "sat", "."], ["고양이", "가", "잔다"]]
FINGERPRINTS = json.loads((MADE / "fingerprints.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", FINGERPRINTS)
def test_same_fingerprint_and_vectors(name):
    bilm = BiLM.load(MADE / name)
    assert bilm.fingerprint() == FINGERPRINTS[name]
    expected = np.load(MADE / "expected.npz")
    for i, layers in enumerate(bilm.encode(SENTENCES)):
        assert abs(layers - expected[f"{name}_{i}"]).max() < 1e-6


@pytest.mark.parametrize("name", ["float32", "float16"])
def test_softmax_and_card(name):
    model = LanguageModel.load(MADE / name)
    assert model.softmax.vectors().shape == (8, 4)
    card = read_card(MADE / name)
    assert card["tokens_seen"] == 1234 and card["fingerprint"] == FINGERPRINTS[name]


@pytest.mark.parametrize("name", ["float32", "float16", "words"])
def test_same_bytes_when_saved_again(name, tmp_path):
    dtype = "float16" if name == "float16" else "float32"
    card = read_card(MADE / name)
    found = files.save(files.load(MADE / name), tmp_path, dtype=dtype, card=card)
    assert found == FINGERPRINTS[name]
    written = list(tmp_path.iterdir())
    assert len(written) == (4 if card else 3)
    for path in written:
        content = path.read_bytes()
        if path.suffix == ".json":  # it has checksums now
            entries = json.loads(content)
            for key in {"vocab_sha256", "sha256"} & entries.keys():
                del entries[key]
            content = json.dumps(entries, indent=2, ensure_ascii=False).encode()
        assert content == (MADE / name / path.name).read_bytes()


def test_same_bilm_tf_files_when_exported_again(tmp_path):
    BiLM.load(MADE / "float32").save(tmp_path, format="bilm-tf")
    made = MADE / "bilm_tf"
    for name in ("options.json", "vocab.txt"):
        assert (tmp_path / name).read_bytes() == (made / name).read_bytes()
    with (
        h5py.File(made / "weights.hdf5") as theirs,
        h5py.File(tmp_path / "weights.hdf5") as ours,
    ):
        assert _arrays(ours) == _arrays(theirs)


def _arrays(file):
    found = {}
    file.visititems(lambda name, item: found.update({name: item}))
    return {
        name: (item.dtype, item.shape, item[...].tobytes())
        for name, item in found.items()
        if isinstance(item, h5py.Dataset)
    }


def test_kept_token_vectors_of_a_vocabulary_are_not_read(tmp_path):
    """`spacy elmo vocab-cache` of version 0.1 wrote them beside the weights."""
    shutil.copytree(MADE / "float32", tmp_path, dirs_exist_ok=True)
    (tmp_path / "vocab_cache.safetensors").write_bytes(b"damaged")
    with pytest.warns(UserWarning, match="ELW50"):
        bilm = BiLM.load(tmp_path)
    assert bilm.fingerprint() == FINGERPRINTS["float32"]
    bilm.save(tmp_path)
    assert not (tmp_path / "vocab_cache.safetensors").exists()
