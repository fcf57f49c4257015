"""A headless Chromium: its window, and its logs."""

import json
from contextlib import contextmanager

from selenium import webdriver
from selenium.webdriver.chrome.service import Service


@contextmanager
def headless_chromium(chromium, chromedriver):
    """Run a Chromium, which logs its requests and its console; both arguments are paths."""
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--lang=en-US"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, Service(chromedriver))
    try:
        yield driver
    finally:
        driver.quit()


def set_window(driver, width=1280, height=900, scheme="light"):
    """Set the size of the window, and the preferred colour scheme."""
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def console_messages(driver):
    """Return the messages of the console since the last call."""
    return [entry["message"] for entry in driver.get_log("browser")]


def requested_urls(driver):
    """Return the URLs requested since the last call."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]


def text(driver, selector):
    """Return the text that is shown, or "" while a page is replaced by the next; each space is a plain one."""
    script = "return (document.querySelector(arguments[0])?.innerText ?? '').replaceAll('\u00a0', ' ')"
    return driver.execute_script(script, selector)


def rows(driver, table):
    """Return the texts of the rows of a table, by the id of its frame."""
    return driver.execute_script(
        "return [...document.querySelectorAll(arguments[0] + ' tbody tr')].map((row) => row.innerText)", f"#{table}"
    )


def tiles(driver):
    """Return the figures of the tiles by their names."""
    return driver.execute_script(
        "return Object.fromEntries([...document.querySelectorAll('.tile')].map((tile) => "
        "['dt', 'strong'].map((name) => tile.querySelector(name).textContent.replaceAll('\u00a0', ' '))))"
    )


def painted(driver):
    """Return the number of charts that have visible content."""
    return driver.execute_script(
        "return [...document.querySelectorAll('canvas')].filter((canvas) => canvas.getContext('2d')"
        ".getImageData(0, 0, canvas.width, canvas.height).data.some((byte) => byte)).length"
    )
