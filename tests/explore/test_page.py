"""A page is one file that asks for nothing, whatever the text is."""

import base64
import hashlib
import html
import re

import pytest

from spacy_elmo.explore import Context, View, render, sentence_view, word_view
from spacy_elmo.explore.page import visible

from .views import HOSTILE, Parsed, bank_contexts, tiny_bilm

MIXES = [
    {"component": "ner", "place": 1, "kind": "sum", "gamma": 1.5, "shares": [0.2, 0.8]}
]


@pytest.fixture(scope="module")
def views():
    bilm = tiny_bilm()
    return {
        "word": word_view(bilm, bank_contexts(12), word="bank"),
        "sentence": sentence_view(bilm, ["We", "saw"]),
        "mix": View("mix", "Mixes", "a pipeline", {"mixes": MIXES}),
    }


def sha256(text):
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


@pytest.mark.parametrize("kind", ["word", "sentence", "mix"])
def test_policy_allows_the_one_script_and_the_one_style_and_no_network(views, kind):
    page = Parsed(render(views[kind]))
    assert page.directive("default-src") == "'none'"
    (style,) = page.content["style"]
    _, script = page.content["script"]
    assert page.directive("style-src") == sha256(style)
    assert page.directive("script-src") == sha256(script)
    assert page.directive("require-trusted-types-for") == "'script'"
    assert "unsafe" not in page.policy and "http" not in page.policy


@pytest.mark.parametrize("kind", ["word", "sentence", "mix"])
def test_page_names_no_other_file(views, kind):
    page = render(views[kind])
    for tag, attributes in Parsed(page).elements:
        assert not {"src", "href", "style", "onclick"} & set(attributes), tag
        assert tag not in ("link", "iframe", "img", "base", "form")
    assert not re.search(
        r"https?://|@import|url\(|fetch\(|XMLHttp|WebSocket", page.html
    )
    assert not re.search(r"innerHTML|insertAdjacent|document\.write|eval\(", page.html)


def test_hostile_text_stays_text():
    tokens = [*HOSTILE, "bank"]
    view = word_view(
        tiny_bilm(),
        [Context(tokens, len(tokens) - 1)],
        [HOSTILE[0]],
        word=HOSTILE[0],
        about=HOSTILE[2],
    )
    page = render(view)
    parsed = Parsed(page)
    assert [tag for tag, _ in parsed.elements].count("script") == 2
    assert "img" not in [tag for tag, _ in parsed.elements]
    assert parsed.data["contexts"][0] == [visible(token) for token in tokens]
    assert parsed.data["labels"] == [HOSTILE[0]]
    assert len(page.html) < 60_000
    page.html.encode()  # no lone surrogate is left


def test_what_is_not_seen_is_named():
    assert visible("a\u202eb\x00\ud800") == "a‹U+202E›b‹U+0000›‹U+D800›"
    assert visible("고양이 שלום 👩‍👧") == "고양이 שלום 👩‍👧"
    assert visible("x" * 100) == "x" * 60 + "…"


def test_page_is_saved_and_shown_in_a_notebook(views, tmp_path):
    page = render(views["mix"])
    page.save(tmp_path / "a" / "page.html")
    assert (tmp_path / "a" / "page.html").read_text("utf-8") == page.html
    shown = page._repr_html_()
    (frame,) = re.findall(r'srcdoc="([^"]*)"', shown)
    assert html.unescape(frame) == page.html
    assert 'sandbox="allow-scripts"' in shown
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="EL013"):
        page.save(tmp_path / "file" / "page.html")
