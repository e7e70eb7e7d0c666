"""The page of a word in a real browser: any language, hostile text, many points."""

import pytest

from spacy_elmo.explore import Context, word_view

from .browser import open_table
from .views import HOSTILE, bank_contexts, many_points, tiny_bilm


@pytest.fixture(scope="module")
def bilm():
    return tiny_bilm()


@pytest.mark.parametrize(
    ("tokens", "direction"),
    [
        (["나는", "배가", "고프다", "."], "ltr"),
        (["הבנק", "של", "הנהר", "."], "rtl"),
        (["ذهبت", "إلى", "البنك", "."], "rtl"),
    ],
)
def test_korean_and_right_to_left_text(browser, bilm, tokens, direction):
    view = word_view(bilm, [Context(tokens, 1)] * 2, word=tokens[1])
    page = browser.open(view)
    assert page.locator("h1").inner_text() == f"2 contexts of “{tokens[1]}”"
    canvas = page.get_by_role("application")
    canvas.focus()
    canvas.press("ArrowRight")
    canvas.press("Enter")
    sentence = page.locator(".pinned bdi").first
    assert sentence.inner_text() == " ".join(tokens[:-1]) + "."
    assert sentence.evaluate("e => getComputedStyle(e).direction") == direction


def test_hostile_text_is_harmless(browser, bilm):
    contexts = [Context([*HOSTILE, "bank", *HOSTILE], len(HOSTILE))] * 3
    view = word_view(bilm, contexts, HOSTILE[:3], word=HOSTILE[0], about=HOSTILE[2])
    page = browser.open(view)
    assert page.locator("h1").inner_text() == f"3 contexts of “{HOSTILE[0]}”"
    open_table(page, "Table of the 3 contexts")
    assert HOSTILE[0] in page.locator("tbody").inner_text()
    assert "‹U+202E›evil" in page.locator("tbody").inner_text()
    canvas = page.get_by_role("application")
    canvas.focus()
    canvas.press("ArrowRight")
    canvas.press("Enter")
    assert page.evaluate("window.hit") is None
    assert page.locator("img").count() == 0 and page.locator("script").count() == 2


def test_policy_is_in_force(browser, bilm):
    """Code that gets into the page neither runs nor reaches the network."""
    page = browser.open(word_view(bilm, bank_contexts(3), word="bank"))
    stopped = page.evaluate(
        """async () => {
        const found = [];
        document.addEventListener("securitypolicyviolation", e => found.push(e.effectiveDirective));
        const image = document.createElement("img");
        image.src = "https://example.org/a.png";
        const style = document.createElement("div");
        style.setAttribute("style", "color: red");
        document.body.append(image, style);
        try { document.body.innerHTML = "<p>"; } catch (error) { found.push("html"); }
        try { await fetch("https://example.org"); } catch (error) { found.push("fetch"); }
        await new Promise(done => setTimeout(done, 300));
        return found;
        }"""  # noqa: E501
    )
    assert {"img-src", "style-src-attr", "html", "fetch", "connect-src"} <= set(stopped)
    browser.opened[-1].complaints.clear()  # what the policy has stopped, in the console


@pytest.mark.slow  # it would wait for a processor that others use
def test_five_thousand_points_are_fluid(browser):
    page = browser.open(many_points(5000))
    page.wait_for_timeout(600)
    box = page.get_by_role("application").bounding_box()
    frames, hover = page.evaluate(
        """async ([width, height]) => {
        const canvas = document.querySelector("canvas[tabindex]");
        const times = [];
        let frames = 0;
        const end = performance.now() + 1500;
        document.getElementById("tab-0").click();
        while (performance.now() < end) {
          const start = performance.now(), x = Math.random() * width, y = Math.random() * height;
          canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: x + canvas.getBoundingClientRect().x, clientY: y + canvas.getBoundingClientRect().y }));
          times.push(performance.now() - start);
          frames += 1;
          await new Promise(requestAnimationFrame);
        }
        return [frames, times.sort((a, b) => a - b)[times.length >> 1]];
        }""",  # noqa: E501
        [box["width"], box["height"]],
    )
    # Drawn by the processor here, beside other work: a screen has far more time.
    assert frames >= 15 and hover < 30, (frames, hover)
