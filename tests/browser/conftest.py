"""A headless Chromium."""

import os
import shutil

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from tests.browser.window import console_messages, requested_urls, set_window


@pytest.fixture(scope="session")
def chromium():
    """The browser, which logs its requests and its console."""
    paths = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in paths:
        missing = "no chromium and chromedriver to look at the page with (apt-get install chromium chromium-driver)"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    options = webdriver.ChromeOptions()
    options.binary_location = paths[0]
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--lang=en-US"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, Service(paths[1]))
    yield driver
    driver.quit()


@pytest.fixture
def browser(chromium):
    """The browser with the window of a desktop, a light scheme, and empty logs."""
    set_window(chromium)
    console_messages(chromium)
    requested_urls(chromium)
    return chromium
