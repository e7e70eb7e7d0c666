"""The page of mixes, and pages in notebooks, in a real browser."""

import pytest

from spacy_elmo.explore import Page, View, render

from .browser import open_table

MIXES = [
    {"component": "tagger", "place": 1, "kind": "sum", "gamma": 1.25,
     "shares": [0.1, 0.6, 0.3]},
    {"component": "<b>ner</b>", "place": 2, "kind": "2", "gamma": 0.5,
     "shares": [0.0, 0.0, 1.0]},
]  # fmt: skip
VIEW = View("mix", "Layers that each component uses", "en_test", {"mixes": MIXES})


@pytest.fixture
def page(browser):
    return browser.open(VIEW)


def test_bars_are_as_wide_as_the_shares(page):
    bar = page.get_by_role(
        "img", name="tagger: Token layer 10 %, Layer 1 60 %, Layer 2 30 %"
    )
    whole = bar.bounding_box()["width"]
    for n, share in enumerate(MIXES[0]["shares"]):
        found = bar.locator("span").nth(n).bounding_box()["width"] / whole
        assert found == pytest.approx(share, abs=0.005)
    assert bar.locator("span").all_inner_texts() == ["10 %", "60 %", "30 %"]
    assert page.get_by_text("γ 1.25").count() == 1
    assert page.get_by_text("<b>ner</b>", exact=True).count() == 1


def test_legend_brings_one_layer_forward(page):
    button = page.get_by_role("button", name="Layer 1")
    button.focus()
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-pressed") == "true"
    assert page.locator(".stack span.faint").count() == 4
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-pressed") == "false"
    button.blur()
    assert page.locator(".stack span.faint").count() == 0


def test_table_behind_the_bars(page):
    open_table(page, "Table of the shares")
    rows = page.get_by_role("table", name="Table of the shares").locator("tbody tr")
    cells = rows.first.locator("td").all_inner_texts()
    assert cells == ["1", "sum", "1.2500", "0.1000", "0.6000", "0.3000"]
    assert rows.count() == 2


def test_dark_mode_and_print(page):
    body = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(body) == "rgb(20, 22, 27)"
    page.emulate_media(color_scheme="dark", media="print")
    assert page.evaluate(body) == "rgb(255, 255, 255)"


def test_a_notebook_shows_the_page_in_a_frame(browser):
    """As notebooks do: the object's HTML is put into a document of theirs."""
    shown = f"<!doctype html><title>x</title>{render(VIEW)._repr_html_()}"
    page = browser.open(Page("notebook", shown))
    frame = page.frame_locator("iframe")
    assert frame.locator("h1").inner_text() == "Layers that each component uses"
    assert frame.locator(".stack").count() == 2
    frame.get_by_role("button", name="Layer 1").click()
    assert frame.locator("[aria-pressed=true]").count() == 1
