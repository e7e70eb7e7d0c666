"""Metadata, licences, citation and change log agree with one another."""

import datetime
import re

import pytest
import yaml

import spacy_elmo
from spacy_elmo import models as shipped

from .project import BLOB, DOCUMENTATION, PROJECT, ROOT, URLS, in_repository

INDEX = "https://pypi.org/project/spacy-elmo"
VERSION = spacy_elmo.__version__
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
CHANGES = re.findall(
    r"^## \[(.+)\](?: - (.+))?$",
    (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)


def test_classifiers_name_what_was_tried():
    found = set(PROJECT["classifiers"])
    oldest = int(PROJECT["requires-python"].removeprefix(">=3."))
    versions = {c.rpartition(" ")[2] for c in found if " :: 3." in c}
    page = (ROOT / "docs" / "guides" / "trust.md").read_text("utf-8")
    tried = set(re.findall(r"^\| Python (3\.\d+)(?!.*untested)", page, re.MULTILINE))
    assert versions == tried
    assert min(int(version.partition(".")[2]) for version in versions) >= oldest
    assert "Typing :: Typed" in found and (ROOT / "spacy_elmo/py.typed").exists()
    assert not any(c.startswith("License ::") for c in found)  # `license` says it
    assert PROJECT["authors"] == [{"name": "The spacy-elmo developers"}]


def test_all_licences_are_there_whole():
    assert (
        PROJECT["license"]
        == "MIT AND CC-BY-SA-4.0 AND Apache-2.0"
        == " AND ".join(CITATION["license"])
    )
    mit, by_sa, apache = (
        (ROOT / f).read_text("utf-8") for f in PROJECT["license-files"]
    )
    assert mit.startswith("MIT License") and "THE SOFTWARE IS PROVIDED" in mit
    assert by_sa.startswith("Attribution-ShareAlike 4.0 International")
    assert "Apache License" in apache and "END OF TERMS AND CONDITIONS" in apache
    for number in range(1, 10):
        assert f"\n   {number}. " in apache
    for number in range(1, 9):
        assert f"\nSection {number} -- " in by_sa


@pytest.mark.parametrize("name", shipped.MODELS.values())
def test_attribution_is_beside_the_weights(name):
    text = (shipped.find(name) / "ATTRIBUTION.md").read_text(encoding="utf-8")
    assert "https://creativecommons.org/licenses/by-sa/4.0" in text
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) > 5 and all(row.count("|") == 4 for row in rows)


def test_addresses_are_the_projects():
    assert CITATION["repository-code"] == URLS["Source"] == URLS["Homepage"]
    assert CITATION["url"] == URLS["Documentation"]
    assert in_repository(URLS["Changelog"]).exists()
    assert BLOB.startswith("https://github.com/") and DOCUMENTATION.startswith("https")
    # No other file has another idea of where the project is.
    names = ("*.md", "*.cff", "docs/**/*.md", "docs/*.json", ".github/**/*.yml")
    for path in (path for name in names for path in ROOT.glob(name)):
        text = path.read_text(encoding="utf-8")
        for link in re.findall(r"https://[\w./-]*spacy-elmo[\w./-]*", text):
            if link.rstrip("/.") not in (*URLS.values(), INDEX):
                in_repository(link)  # or it is not below them


def test_the_version_is_released_and_dated_everywhere():
    (latest, day), *older = [each for each in CHANGES if each[0] != "Unreleased"]
    assert latest == VERSION == CITATION["version"]
    assert datetime.date.fromisoformat(day) == CITATION["date-released"]
    assert [version for version, _ in older] == ["0.1.0"]
    assert all(day for _, day in older)


def test_the_paper_is_cited():
    (paper,) = CITATION["references"]
    assert paper["doi"] == "10.18653/v1/N18-1202" and len(paper["authors"]) == 7
    assert CITATION["cff-version"] == "1.2.0" and CITATION["message"]
