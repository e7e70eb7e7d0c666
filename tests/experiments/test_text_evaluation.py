"""Evaluation corpora from tiny repositories."""

import hashlib
import tarfile

import pytest

from experiments.text import evaluation
from experiments.text.source import Repository

from .test_text_mirrors import git, make_repository

BEFORE = """# text = An Iraqi in New York .
1\tAn\tO
2\tIraqi\tB-OTH\t-\tann
3\tin\tO
4\tNew\tB-LOC\t-\tann
5\tYork\tI-LOC\t-\tann
6\t.\tB-O\t-\tann

"""
RELEASED = """# text = An Iraqi in New York .
1\tAn\tO\t-\t-
2\tIraqi\tO\t-\t-
3\tin\tO\t-\t-
4\tNew\tB-LOC\t-\t-
5\tYork\tI-LOC\t-\t-
6\t.\tO\t-\t-

"""


BOSQUE = "# sent_id = B-1\nz\n\n# sent_id = A-2\ny\n\n"


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A folder with small repositories of the four corpora."""
    folder = tmp_path / "mirrors"
    treebank = {
        "not-to-release/file-lists/files.train": "b/two.conllu\na/one.conllu\n",
        "not-to-release/sources/a/one.conllu": "one\n\n",
        "not-to-release/sources/b/two.conllu": "two\n\n",
        "not-to-release/sources/c/three.conllu": "three\n\n",
    }
    commit = make_repository(folder / "someone" / "treebank", treebank)
    paths = evaluation._TREEBANK.paths  # noqa: SLF001
    _set(monkeypatch, "_TREEBANK", Repository("someone/treebank", commit, paths))
    make_repository(folder / "someone" / "entities", {"train.iob2": BEFORE})
    blob = git(folder / "someone" / "entities", "rev-parse", "HEAD:train.iob2")
    _set(monkeypatch, "_ENTITIES", "someone/entities")
    _set(monkeypatch, "_ENTITIES_BLOB", blob)
    senses = {"semcor/a.xml": "<a/>", "masc/b.xml": "<b/>", "semcor/empty": ""}
    commit = make_repository(folder / "someone" / "senses", senses)
    _set(monkeypatch, "_SENSES", Repository("someone/senses", commit, ""))
    documents = "not-to-release/documents"
    bosque = {
        "not-to-release/pt_bosque-ud-train.txt": "B-1\nA-2\n",
        f"{documents}/A.conllu": "# sent_id = A-1\nx\n\n# sent_id = A-2\ny\n\n",
        f"{documents}/B.conllu": "# sent_id = B-1\nz\n\n",
        "pt_bosque-ud-train.conllu": "too large",
    }
    commit = make_repository(folder / "someone" / "bosque", bosque)
    paths = evaluation._BOSQUE.paths  # noqa: SLF001
    _set(monkeypatch, "_BOSQUE", Repository("someone/bosque", commit, paths))
    listed = "".join(
        f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n"
        for name, text in sorted(senses.items())
    )
    sums = [
        hashlib.sha256(x.encode()).hexdigest() for x in ("two\n\none\n\n", RELEASED)
    ]
    sums.append(hashlib.sha256(listed.encode()).hexdigest())
    sums.append(hashlib.sha256(BOSQUE.encode()).hexdigest())
    corpora = [c._replace(sha256=s) for c, s in zip(evaluation.CORPORA, sums)]
    _set(monkeypatch, "CORPORA", tuple(corpora))
    return folder


def _set(monkeypatch, name, value):
    monkeypatch.setattr(evaluation, name, value)


def test_the_corpora(sources, tmp_path):
    made = evaluation.make_evaluation(sources, tmp_path / "out")
    treebank, entities, senses, bosque = made
    assert bosque.read_text() == BOSQUE
    assert treebank.read_text() == "two\n\none\n\n"
    assert entities.read_text() == RELEASED
    with tarfile.open(senses) as files:
        assert files.getnames() == [
            "wsd-noad/masc/b.xml",
            "wsd-noad/semcor/a.xml",
            "wsd-noad/semcor/empty",
        ]
        assert files.extractfile("wsd-noad/masc/b.xml").read() == b"<b/>"
    again = evaluation.make_evaluation(sources, tmp_path / "again")
    assert [x.read_bytes() for x in again] == [x.read_bytes() for x in made]
    (one,) = evaluation.make_evaluation(sources, tmp_path / "one", [bosque.name])
    assert list((tmp_path / "one").iterdir()) == [one]


def test_another_sum_is_told(sources, tmp_path, monkeypatch):
    wrong = tuple(c._replace(sha256="0" * 64) for c in evaluation.CORPORA)
    _set(monkeypatch, "CORPORA", wrong)
    with pytest.raises(ValueError, match=r"en_ewt-ud-train\.conllu: SHA-256"):
        evaluation.make_evaluation(sources, tmp_path / "out")
    assert not (tmp_path / "out").exists()
