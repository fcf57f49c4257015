"""A browser without a window, and what it says."""

import json
import os
import shutil

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service


@pytest.fixture(scope="session")
def chromium():
    """The browser, which notes what it asks for and what it complains of."""
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
    """The same as at a desk, by day."""
    look(chromium)
    said(chromium)
    asked_for(chromium)
    return chromium


def look(driver, width=1280, height=900, scheme="light"):
    """Have a window of that size, and whoever sits there prefer that scheme."""
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def said(driver):
    """What stands in its console since this was last asked."""
    return [each["message"] for each in driver.get_log("browser")]


def asked_for(driver):
    """What it has asked for since then."""
    events = [json.loads(each["message"])["message"] for each in driver.get_log("performance")]
    return [each["params"]["request"]["url"] for each in events if each["method"] == "Network.requestWillBeSent"]
