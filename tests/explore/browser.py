"""Pages in Debian's Chromium, which Playwright drives."""

import os
import shutil
from pathlib import Path
from typing import Any

from spacy_elmo.explore import Page, View, render

CHROMIUM = os.environ.get("SPACY_ELMO_CHROMIUM") or shutil.which("chromium")
WHY = "no Chromium: install it, or name it in SPACY_ELMO_CHROMIUM"
# --no-sandbox lets root start it; the others keep the browser itself off the network.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
]


class Opened:
    """A page in a browser, and what it has asked for and complained about."""

    def __init__(self, browser: Any, folder: Path, page: Page, **settings: Any) -> None:
        path = folder / f"{len(list(folder.iterdir()))}.html"
        page.save(path)
        self.url = path.as_uri()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        size = {"width": 1200, "height": 850}
        self.context = browser.new_context(viewport=size, **settings)
        # Anything but the file itself would be seen here, and gets no answer.
        self.context.route("**", self._answer)
        self.page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.page.on("console", lambda m: self.complaints.append(m.text))
        self.page.on("pageerror", lambda e: self.complaints.append(str(e)))
        self.page.on("dialog", lambda d: self.complaints.append(d.message))
        self.page.goto(self.url)

    def _answer(self, route: Any) -> None:
        self.requests.append(route.request.url)
        if route.request.url == self.url:
            route.continue_()
        else:
            route.abort()

    def close(self) -> None:
        self.context.close()
        assert self.requests == [self.url]
        assert self.complaints == []


class Browser:
    """Opens views; at the end of a test all must have asked for nothing else."""

    def __init__(self, chromium: Any, folder: Path) -> None:
        self.chromium, self.folder = chromium, folder
        self.opened: list[Opened] = []

    def open(self, shown: View | Page, **settings: Any) -> Any:
        page = render(shown) if isinstance(shown, View) else shown
        opened = Opened(self.chromium, self.folder, page, **settings)
        self.opened.append(opened)
        return opened.page

    def close(self) -> None:
        for opened in self.opened:
            opened.close()


def open_table(scope: Any, title: str) -> None:
    """Click on what a table is behind, and wait until its rows are there."""
    scope.locator("summary", has_text=title).click()
    scope.locator("details[open] tbody tr").first.wait_for()
