"""The window of a browser, and its logs."""

import json


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
    return [each["message"] for each in driver.get_log("browser")]


def requested_urls(driver):
    """Return the URLs requested since the last call."""
    events = [json.loads(each["message"])["message"] for each in driver.get_log("performance")]
    return [each["params"]["request"]["url"] for each in events if each["method"] == "Network.requestWillBeSent"]
