"""Debian's Chromium without a window, for tests of the report page."""

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

CHROMIUM, CHROMEDRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--window-size=1280,900",
)
LOCAL = ("file:", "data:", "blob:", "chrome:", "about:", "devtools:")


@contextmanager
def open_browser(profile: Path) -> Iterator[Chrome]:
    """Start a browser with a profile of its own, and end it."""
    if not shutil.which(CHROMIUM) or not shutil.which(CHROMEDRIVER):
        pytest.skip(f"{CHROMIUM} and {CHROMEDRIVER} are not installed (chromium, chromium-driver)")
    options = Options()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = Chrome(options=options, service=Service(CHROMEDRIVER))
    try:
        yield browser
    finally:
        browser.quit()


def visit(browser: Chrome, address: str, timeout: float = 60) -> None:
    """Open a page and wait until its plots are drawn."""
    browser.get(address)
    wait_for(browser, "document.documentElement.dataset.ready === 'true'", timeout)


def wait_for(browser: Chrome, condition: str, timeout: float = 30) -> None:
    """Wait until an expression is true in the page."""
    deadline = time.monotonic() + timeout
    while not browser.execute_script(f"return {condition};"):
        assert time.monotonic() < deadline, f"never became true: {condition}"
        time.sleep(0.1)


def complaints(browser: Chrome) -> list[str]:
    """List what the browser's console says."""
    return [str(entry["message"]) for entry in browser.get_log("browser")]


def requests(browser: Chrome) -> list[str]:
    """List what the page has asked a network for."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    return [address for address in asked if not address.startswith(LOCAL)]


def overflow(browser: Chrome) -> int:
    """How many pixels the page is wider than the window."""
    script = "return document.documentElement.scrollWidth - document.documentElement.clientWidth;"
    return int(browser.execute_script(script))


def emulate(browser: Chrome, width: int, scheme: str) -> None:
    """Pretend to be a window of this width, with the colours that its system prefers."""
    size: dict[str, Any] = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
