"""Senses of words by what is nearest."""

import io
import tarfile

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
