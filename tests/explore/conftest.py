import os

import pytest

from .browser import ARGUMENTS, CHROMIUM, WHY, Browser


@pytest.fixture(scope="session")
def chromium():
    if CHROMIUM is None or not os.access(CHROMIUM, os.X_OK):
        pytest.skip(WHY)
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def browser(chromium, tmp_path):
    opener = Browser(chromium, tmp_path)
    yield opener
    opener.close()
