"""The page of sentences in a real browser."""

import numpy as np
import pytest

from spacy_elmo.explore import sentence_view

from .browser import open_table
from .views import HOSTILE, tiny_bilm, tiny_softmax

FIRST = ["the", "old", "boat", "lay", "고양이", "."]
SECOND = ["we", "saw", "money"]


@pytest.fixture(scope="module")
def bilm():
    return tiny_bilm()


@pytest.fixture(scope="module")
def view(bilm):
    return sentence_view(bilm, FIRST, SECOND, softmax=tiny_softmax(bilm))


@pytest.fixture
def page(browser, view):
    return browser.open(view)


def cell(page, i, j):
    return page.locator(f"td[data-at='{i},{j}']")


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_every_cell_of_every_layer(page, view, layer):
    page.get_by_role("tab").nth(layer).click()
    for i, row in enumerate(view.data["cosines"][layer]):
        for j, cosine in enumerate(row):
            found = float(cell(page, i, j).inner_text())
            assert found == pytest.approx(cosine / 1000, abs=0.0051)
    grid = page.get_by_role("grid", name="Cosine of each token with each token")
    assert grid.get_by_role("columnheader").all_inner_texts() == SECOND
    assert grid.get_by_role("rowheader").all_inner_texts() == FIRST
    scale = page.locator(".scale").inner_text().split()
    values = np.array(view.data["cosines"][layer]) / 1000
    ends = [float(scale[1]), float(scale[-1])]
    assert ends == pytest.approx([values.min(), values.max()], abs=0.0051)


def test_keys_walk_over_cells(page, view):
    cell(page, 0, 0).focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.dataset.at") == "2,1"
    cosine = view.data["cosines"][2][2][1] / 1000
    assert (
        page.locator("#readout").inner_text() == f"boat (3) and saw (2): {cosine:.3f}"
    )
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.dataset.at") == "2,2"
    page.keyboard.press("Enter")
    order = np.argsort(-np.array(view.data["cosines"][2][2]), kind="stable")
    near = page.locator(".near button span bdi").all_inner_texts()
    assert near == [SECOND[j] for j in order]
    assert page.get_by_role("status").inner_text().startswith("Most similar: ")


def test_a_click_on_a_token_ranks_the_others(page, view):
    page.get_by_role("columnheader", name="money").click()
    assert "Most similar to money" in page.locator("aside").inner_text()
    column = [row[2] for row in view.data["cosines"][2]]
    near = page.locator(".near button span bdi").all_inner_texts()
    assert near == [FIRST[i] for i in np.argsort(-np.array(column), kind="stable")]
    page.get_by_role("tab", name="Layer 1").click()
    column = [row[2] for row in view.data["cosines"][1]]
    assert (
        near[0]
        and page.locator(".near bdi").first.inner_text()
        == (FIRST[int(np.argmax(column))])
    )
    cell(page, 1, 0).hover()
    assert page.locator("#readout").inner_text().startswith("old (2) and we (1): ")


def test_table_behind_the_grid(page, view):
    open_table(page, "Table of the pairs")
    rows = page.get_by_role("table", name="Table of the pairs").locator("tbody tr")
    assert rows.count() == len(FIRST) * len(SECOND)
    found = [float(text) for text in rows.locator("td:last-child").all_inner_texts()]
    assert found == sorted(found, reverse=True)
    assert found[0] == np.max(view.data["cosines"][2]) / 1000


def test_surprise_of_each_token(page, view):
    sections = page.get_by_role("region", name="Surprise of each token")
    assert sections.count() == 2
    for n, tokens in enumerate((FIRST, SECOND)):
        bits = view.data["surprise"][n]
        for i, token in enumerate(tokens):
            left, right = bits["forward"][i], bits["backward"][i]
            button = sections.nth(n).locator(".token").nth(i)
            name = button.get_attribute("aria-label")
            words = name.replace(f"{token}: ", "").split()
            assert float(words[0]) == pytest.approx(left, abs=0.06)
            assert float(words[3]) == pytest.approx(right, abs=0.06)
            assert ("not in the vocabulary" in name) is not bits["known"][i]
            heights = [
                button.locator(f".{way} span").bounding_box()["height"]
                for way in ("up", "down")
            ]
            assert heights[0] / heights[1] == pytest.approx(left / right, rel=0.05)
    open_table(sections.first, "Table of the surprise")
    row = sections.first.locator("tbody tr").nth(1).locator("td").all_inner_texts()
    assert row[0] == "old"
    assert float(row[1]) == view.data["surprise"][0]["forward"][1]
    assert float(row[2]) == pytest.approx(2 ** -float(row[1]), rel=0.01)


def test_without_a_softmax_the_page_says_so(browser, bilm):
    page = browser.open(sentence_view(bilm, FIRST))
    assert page.locator(".token").count() == 0
    assert page.get_by_text("The model has no softmax").count() == 1
    assert cell(page, 0, 0).inner_text() == "1.00"
    open_table(page, "Table of the pairs")
    n = len(FIRST)
    rows = page.get_by_role("table", name="Table of the pairs").locator("tbody tr")
    assert rows.count() == n * (n - 1) // 2


def test_right_to_left_tokens_run_from_the_right(browser, bilm):
    tokens = ["הבנק", "של", "הנהר"]
    view = sentence_view(bilm, tokens, ["나는", "잔다"], softmax=tiny_softmax(bilm))
    page = browser.open(sentence_view(bilm, tokens, softmax=tiny_softmax(bilm)))
    left = [page.locator(".token").nth(i).bounding_box()["x"] for i in range(3)]
    assert left == sorted(left, reverse=True)
    assert cell(page, 0, 0).bounding_box()["x"] > cell(page, 0, 1).bounding_box()["x"]
    cell(page, 0, 0).focus()
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.dataset.at") == "0,1"
    korean = browser.open(view)
    assert korean.get_by_role("columnheader").all_inner_texts() == ["나는", "잔다"]


def test_hostile_tokens_are_harmless(browser, bilm):
    view = sentence_view(bilm, HOSTILE, softmax=tiny_softmax(bilm), about=HOSTILE[0])
    page = browser.open(view)
    assert page.get_by_role("rowheader").first.inner_text() == HOSTILE[0]
    assert page.evaluate("window.hit") is None and page.locator("img").count() == 0
    assert page.evaluate("document.body.scrollWidth") <= 1200


CONTRAST = """() => {
    const pen = document.createElement("canvas")
        .getContext("2d", { willReadFrequently: true });
    const luminance = colour => {
        pen.fillStyle = colour;
        pen.fillRect(0, 0, 1, 1);
        const [r, g, b] = [...pen.getImageData(0, 0, 1, 1).data].map(
            v => v <= 10 ? v / 3294 : ((v / 255 + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
    };
    return Math.min(...[...document.querySelectorAll("td[data-at]")].map(td => {
        const style = getComputedStyle(td);
        const [a, b] = [luminance(style.color), luminance(style.backgroundColor)];
        return Math.max(a, b) / Math.min(a, b);
    }));
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_numbers_on_cells_can_be_read(page, scheme):
    page.emulate_media(color_scheme=scheme)
    for layer in range(3):
        page.get_by_role("tab").nth(layer).click()
        assert page.evaluate(CONTRAST) >= 4.3


def test_dark_mode_and_print(page):
    light = cell(page, 0, 0).evaluate("e => getComputedStyle(e).backgroundColor")
    page.emulate_media(color_scheme="dark")
    dark = cell(page, 0, 0).evaluate("e => getComputedStyle(e).backgroundColor")
    assert light != dark
    page.emulate_media(color_scheme="dark", media="print")
    printed = cell(page, 0, 0).evaluate("e => getComputedStyle(e).backgroundColor")
    assert printed == light
    assert page.pdf().startswith(b"%PDF")
