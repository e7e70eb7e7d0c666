"""Text files with a byte order mark, as editors of Windows and PowerShell save them."""

import shutil

import pytest

from spacy_elmo import BiLM, embed
from spacy_elmo.bilm import weights
from spacy_elmo.embed.plan import read_plan
from spacy_elmo.models import read_card
from spacy_elmo.pretrain.config import read_config
from spacy_elmo.text import open_corpus

from ..models import same_layers, tiny_config
from ..pretrain import runs
from ..project import ROOT

CHECKPOINT = ROOT / "tests" / "gold" / "bilm_tf_checkpoint"


@pytest.fixture(params=["utf-8-sig", "utf-16"])
def save_again(request):
    """Save text files in another encoding, with the line ends of Windows."""

    def save(*paths):
        for path in paths:
            text = path.read_text(encoding="utf-8").replace("\n", "\r\n")
            path.write_bytes(text.encode(request.param))

    return save


def test_a_model_and_its_card(save_again, tmp_path):
    bilm = BiLM.random(tiny_config(n_words=3), vocab=["a", "<UNK>", "나"])
    weights.save(bilm.stored(), tmp_path, card={"version": "7"})
    save_again(*tmp_path.glob("*.json"), *tmp_path.glob("*.txt"))
    assert same_layers(BiLM.load(tmp_path), bilm)
    assert read_card(tmp_path)["version"] == "7"


def test_the_newest_checkpoint(save_again, tmp_path):
    shutil.copytree(CHECKPOINT, tmp_path, dirs_exist_ok=True)
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-92"\n')
    shutil.copy(tmp_path / "model.ckpt-92.index", tmp_path / "model.ckpt-93.index")
    save_again(tmp_path / "checkpoint", tmp_path / "options.json")
    assert BiLM.load(tmp_path).fingerprint() == BiLM.load(CHECKPOINT).fingerprint()


def test_a_configuration_and_a_prepared_text(save_again, tmp_path):
    runs.write_config(tmp_path)
    expected = read_config(tmp_path / "run.cfg").to_dict()
    save_again(tmp_path / "run.cfg")
    assert read_config(tmp_path / "run.cfg").to_dict() == expected
    runs.write_text(tmp_path)
    runs.prepare_text(tmp_path)
    n_tokens = open_corpus(tmp_path / "train").n_tokens
    save_again(tmp_path / "train" / "manifest.json")
    assert open_corpus(tmp_path / "train").n_tokens == n_tokens


def test_a_plan(save_again, tmp_path):
    BiLM.random(tiny_config()).save(tmp_path / "model")
    (tmp_path / "a.txt").write_text("A cat\n")
    plan, _ = embed.make_plan(tmp_path / "model", [tmp_path / "a.txt"], tmp_path / "v")
    save_again(tmp_path / "v" / "plan.json")
    assert read_plan(tmp_path / "v").hash == plan.hash
