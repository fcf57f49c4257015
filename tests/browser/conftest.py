"""A headless Chromium."""

import shutil

import pytest

from tests.browser.window import console_messages, headless_chromium, requested_urls, set_window
from tests.support.needs import need


@pytest.fixture(scope="session")
def chromium():
    """The browser, which logs its requests and its console."""
    paths = [shutil.which(name) for name in ("chromium", "chromedriver")]
    missing = "no chromium and chromedriver to look at the page with (apt-get install chromium chromium-driver)"
    need(all(paths), missing)
    with headless_chromium(*paths) as driver:
        yield driver


@pytest.fixture
def browser(chromium):
    """The browser with the window of a desktop, a light scheme, no page, and empty logs."""
    chromium.get("about:blank")  # the page of the test before may still ask its server
    set_window(chromium)
    console_messages(chromium)
    requested_urls(chromium)
    return chromium
