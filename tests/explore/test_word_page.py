"""The page of a word in a real browser: what is seen, clicked and typed."""

import re

import pytest

from spacy_elmo.explore import nearest_contexts, word_view

from .browser import open_table
from .views import bank_contexts, tiny_bilm

N = 130
LABELS = ["money", "river", ""]


@pytest.fixture(scope="module")
def bilm():
    return tiny_bilm()


@pytest.fixture(scope="module")
def contexts():
    return bank_contexts(N)


@pytest.fixture(scope="module")
def view(bilm, contexts):
    labels = [LABELS[i % 3] for i in range(N)]
    return word_view(bilm, contexts, labels, word="bank", about="a tiny model")


@pytest.fixture
def page(browser, view):
    return browser.open(view, reduced_motion="reduce")


def points(page):
    return page.get_by_role("application", name=f"{N} contexts of bank as points")


def pinned(page):
    """Return the number in the sentence that is pinned."""
    return int(re.findall(r"number(\d+)", page.locator(".pinned").inner_text())[0])


def place_of(page, canvas):
    """Return the place of the current point on the page."""
    x, y = map(int, canvas.get_attribute("data-point").split(","))
    box = canvas.bounding_box()
    return box["x"] + x, box["y"] + y


def test_keys_walk_over_points_and_pin_them(page, bilm, contexts):
    canvas = points(page)
    canvas.focus()
    seen = set()
    for key in ("ArrowRight", "ArrowRight", "ArrowUp", "ArrowLeft", "ArrowDown"):
        canvas.press(key)
        seen.add(page.locator(".tip").inner_text())
        assert "bank" in page.get_by_role("status").inner_text().lower()
    assert len(seen) >= 3
    canvas.press("Enter")
    i = pinned(page)
    expected = nearest_contexts(bilm, [contexts[i]], contexts, 10)
    near = page.locator(".near button")
    assert near.count() == 10
    for n, neighbour in enumerate(expected):
        text = near.nth(n).inner_text()
        assert float(text.split()[0]) == pytest.approx(neighbour.cosine, abs=0.006)
        assert neighbour.nearest.sentence[-1] in text
    assert page.get_by_role("status").inner_text().startswith("Pinned: ")
    canvas.press("Escape")
    assert (
        page.locator(".pinned").count() == 0 and not page.locator(".tip").is_visible()
    )


def test_pointing_shows_the_sentence_and_a_click_pins_it(page, contexts):
    canvas = points(page)
    canvas.focus()
    canvas.press("ArrowLeft")
    x, y = place_of(page, canvas)
    search = page.get_by_label("Search")
    search.focus()
    assert not page.locator(".tip").is_visible()
    page.mouse.move(x, y)
    tip = page.locator(".tip").inner_text()
    page.mouse.click(x, y)
    i = pinned(page)
    assert f"number{i}" in tip and contexts[i].sentence[-1] == f"number{i}"
    other = page.locator(".near button").first
    number = int(other.get_attribute("data-context"))
    other.click()
    assert pinned(page) == number
    page.get_by_role("button", name="Unpin").click()
    assert page.locator(".pinned").count() == 0


def test_tabs_change_the_layer(page, bilm, contexts):
    tabs = page.get_by_role("tab")
    assert tabs.all_inner_texts() == ["Token layer", "Layer 1", "Layer 2"]
    selected = page.get_by_role("tab", selected=True)
    assert selected.inner_text() == "Layer 2"
    canvas = points(page)
    canvas.focus()
    canvas.press("ArrowUp")
    canvas.press("Enter")
    i = pinned(page)
    selected.focus()
    selected.press("ArrowLeft")
    assert (
        selected.inner_text()
        == "Layer 1"
        == page.evaluate("document.activeElement.textContent")
    )
    assert "components 1 and 2 of layer 1" in page.locator("figcaption").inner_text()
    (nearest, *_) = nearest_contexts(bilm, [contexts[i]], contexts, 1, layer=1)
    assert (
        nearest.nearest.sentence[-1] in page.locator(".near button").first.inner_text()
    )
    selected.press("Home")
    assert "knows no context" in page.locator("figcaption").inner_text()
    assert page.get_by_role("tabpanel", name="Token layer").count() == 1
    tabs.nth(2).click()
    assert selected.inner_text() == "Layer 2"


def test_search_finds_sentences(page, contexts):
    search = page.get_by_label("Search")
    found = [i for i, c in enumerate(contexts) if "river" in c.sentence]
    search.fill("River")
    assert page.locator("#found").inner_text() == f"{len(found)} of {N}"
    search.press("Enter")
    assert pinned(page) == found[0]
    search.press("Enter")
    assert pinned(page) == found[1]
    open_table(page, f"Table of the {N} contexts")
    assert page.locator("tbody tr").count() == len(found)
    search.fill("no such words")
    assert page.locator("#found").inner_text() == f"0 of {N}"
    assert page.locator("tbody tr").count() == 0
    search.fill("")
    assert page.locator("#found").inner_text() == ""


def test_colours_by_label_cluster_or_spelling(page, view):
    legend = page.get_by_role("group", name="Colours")
    texts = [
        text.split("\n") for text in legend.get_by_role("button").all_inner_texts()
    ]
    assert sorted(t[0] for t in texts) == ["money", "no label", "river"]
    assert sum(int(t[-1]) for t in texts) == N
    by = page.get_by_label("Colour by")
    assert by.locator("option").all_inner_texts() == ["label", "cluster", "spelling"]
    by.select_option("spelling")
    texts = [
        text.split("\n") for text in legend.get_by_role("button").all_inner_texts()
    ]
    assert texts == [["bank", "104"], ["Bank", "26"]]
    open_table(page, f"Table of the {N} contexts")
    legend.get_by_role("button", name="Bank 26", exact=True).click()
    assert page.locator("tbody tr").count() == 26
    assert legend.locator("[aria-pressed=true]").count() == 1
    legend.get_by_role("button", name="Bank 26", exact=True).click()
    by.select_option("cluster")
    n_clusters = len(set(view.data["layers"][2]["cluster"]))
    assert legend.get_by_role("button").count() == n_clusters


def test_table_behind_the_points(page, contexts):
    page.locator("summary", has_text=f"Table of the {N} contexts").focus()
    page.keyboard.press("Enter")
    page.locator("tbody tr").first.wait_for()
    table = page.get_by_role("table", name=f"Table of the {N} contexts")
    heads = table.get_by_role("columnheader").all_inner_texts()
    assert heads == ["No.", "Before", "Word", "After", "Label", "Cluster"]
    rows = table.locator("tbody tr")
    assert rows.count() == 100
    page.get_by_role("button", name="Show more rows: 30 are left").click()
    assert rows.count() == N
    cells = rows.nth(3).locator("td").all_inner_texts()
    i = contexts[3].position
    assert cells[0].split() == contexts[3].sentence[:i]
    assert cells[1] == contexts[3].sentence[i]
    assert cells[3] == "money"


def test_zoom_and_drag(page):
    canvas = points(page)
    canvas.focus()
    canvas.press("ArrowRight")
    before = canvas.get_attribute("data-point")
    for key in ("+", "+"):
        canvas.press(key)
    canvas.press("Enter")
    canvas.press("Escape")
    box = canvas.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 120, y + 60, steps=3)
    page.mouse.up()
    page.get_by_role("button", name="Whole map").click()
    canvas.focus()
    canvas.press("ArrowRight")
    assert canvas.get_attribute("data-point") == before


def test_everything_has_a_name_and_is_reached_by_keys(page):
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, [tabindex]")]
        .filter(e => !e.hidden)
        .filter(e => !(e.textContent.trim() || e.getAttribute("aria-label") ||
                       (e.labels && e.labels.length))).length"""
    )
    assert nameless == 0
    reached = []
    for _ in range(14):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "document.activeElement.tagName + document.activeElement.role"
            )
        )
    for wanted in ("BUTTONtab", "INPUT", "SELECT", "CANVASapplication", "SUMMARY"):
        assert any(one.startswith(wanted) for one in reached), wanted
    assert page.locator("canvas:not([aria-hidden]):not([aria-label])").count() == 0
    described = points(page).get_attribute("aria-describedby")
    assert "Arrow keys" in page.locator(f"#{described}").text_content()


def test_dark_mode_and_print(page):
    body = "getComputedStyle(document.body).backgroundColor"
    drawn = "document.querySelector('canvas').toDataURL()"
    seen = {page.evaluate(drawn)}
    assert page.evaluate(body) == "rgb(246, 245, 241)"
    for media, colour in (
        ("screen", "rgb(20, 22, 27)"),
        ("print", "rgb(255, 255, 255)"),
    ):
        page.emulate_media(color_scheme="dark", media=media)
        assert page.evaluate(body) == colour
        for _ in range(100):  # the points are drawn again, in colours for it
            if (picture := page.evaluate(drawn)) not in seen:
                break
            page.wait_for_timeout(50)
        assert picture not in seen
        seen.add(picture)
    assert not page.get_by_label("Search").is_visible()
    assert page.pdf().startswith(b"%PDF")
