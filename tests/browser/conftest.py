"""A headless Chromium."""

import os
import shutil

import pytest

from tests.browser.window import console_messages, headless_chromium, requested_urls, set_window


@pytest.fixture(scope="session")
def chromium():
    """The browser, which logs its requests and its console."""
    paths = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in paths:
        missing = "no chromium and chromedriver to look at the page with (apt-get install chromium chromium-driver)"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
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
