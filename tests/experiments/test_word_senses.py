"""Senses of words by what is nearest."""

import io
import tarfile

import numpy as np
import pytest

from experiments import word_senses
from spacy_elmo.bilm.bilm import BiLM

from ..models import tiny_config

SEEN = [
    ("They sat on the bank", "river"),
    ("He walked to the bank", "money"),
    ("She went to a bank", "money"),
    ("It lies at the bank", "money"),
]
ASKED = [("He walked to the bank", "money"), ("We saw a bank", "money")]


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "senses.tar.xz"
    with tarfile.open(path, "w:xz") as files:
        for part, sentences in (("semcor", SEEN), ("masc", ASKED)):
            words = []
            for text, sense in sentences:
                *first, last = text.split()
                words += [f'<word text="{word}"/>' for word in first]
                words += [f'<word text="{last}" lemma="bank" pos="N" sense="{sense}"/>']
                words += ['<word text="." break_level="NO_BREAK"/>']
                words += ['<word text="So" break_level="SENTENCE_BREAK"/>']
            content = f"<doc>{''.join(words)}</doc>".encode()
            member = tarfile.TarInfo(f"corpora/{part}/one.xml")
            member.size = len(content)
            files.addfile(member, io.BytesIO(content))
    return path


def test_occurrences_that_are_equally_near_vote(archive):
    """In the token layer all occurrences of one spelling are, so it gives the sense
    that they most often have."""
    found = word_senses.evaluate(BiLM.random(tiny_config(), seed=1), archive)
    assert found["occurrences"] == 2
    assert found["first_sense"] == 1.0
    assert found["layers"][0] == 1.0


@pytest.mark.parametrize("seed", range(6))
def test_average_and_lstm_layers_are_judged_too(archive, seed):
    """As vectors that are made here of the layers: the mean, and the LSTM layers as
    unit vectors beside each other."""
    bilm = BiLM.random(tiny_config(), seed=seed)

    def unit(vector):
        return vector / np.linalg.norm(vector)

    def of_bank(text):
        *_, layers = bilm.encode([[*text.split(), "."]])
        return layers[:, -2]

    ways = {
        "average": lambda layers: unit(layers.mean(0)),
        "lstm_layers": lambda layers: unit(np.concatenate([*map(unit, layers[1:])])),
    }
    found = word_senses.evaluate(bilm, archive)
    for name, vector in ways.items():
        right = 0
        for text, sense in ASKED:
            asked = vector(of_bank(text))
            cosines = [asked @ vector(of_bank(seen)) for seen, _ in SEEN]
            right += SEEN[int(np.argmax(cosines))][1] == sense
        assert found[name] == right / len(ASKED)
    assert len(found["layers"]) == bilm.config.n_layers + 1
