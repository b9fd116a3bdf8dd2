"""A real browser, without a window: Debian's Chromium, driven by selenium."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from tests.support.npm import npm_package
from tests.support.parts import debian_package

AXE_VERSION = "4.10.3"
_PATIENCE_SECONDS = 60.0


class Browser:
    """One page in a browser."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    def open(self, url: str, *, width: int = 1280, dark: bool = False) -> None:
        """Load a page in a window of some width, as the system's theme has it."""
        scheme = "dark" if dark else "light"
        self.command(
            "Emulation.setEmulatedMedia",
            features=[
                {"name": "prefers-color-scheme", "value": scheme},
                {"name": "prefers-reduced-motion", "value": "reduce"},
            ],
        )
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.driver.get(url)

    def command(self, name: str, **parameters: object) -> Any:
        """Send a command of the DevTools protocol."""
        return self.driver.execute_cdp_cmd(name, parameters)

    def text(self, selector: str) -> str:
        """Return what an element says; empty where there is none (any more)."""
        try:
            found = self.driver.find_elements(By.CSS_SELECTOR, selector)
            return found[0].text if found else ""
        except StaleElementReferenceException:
            return ""

    def press(self, selector: str, keys: str) -> None:
        """Type into an element."""
        self.driver.find_element(By.CSS_SELECTOR, selector).send_keys(keys)

    def click(self, selector: str) -> None:
        """Click on an element."""
        self.driver.find_element(By.CSS_SELECTOR, selector).click()

    def run(self, script: str, *arguments: object) -> Any:
        """Evaluate a script in the page."""
        return self.driver.execute_script(script, *arguments)

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for a state of the page."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"{what} never came:\n{self.text('body')}")
            time.sleep(0.05)

    def errors(self) -> list[str]:
        """Return what the browser complained about since it was asked last."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")  # type: ignore[no-untyped-call]
            if entry["level"] == "SEVERE"
        ]

    def violations(self) -> list[str]:
        """Return what the accessibility checker axe-core finds wrong."""
        folder = npm_package("axe-core", AXE_VERSION)
        self.run((folder / "node_modules/axe-core/axe.min.js").read_text())
        found = self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            "axe.run(document).then((found) => done(found.violations));"
        )
        return [
            f"{each['id']}: {node['html']} {node['failureSummary']}"
            for each in found
            for node in each["nodes"]
        ]

    def picture(self, path: str) -> None:
        """Save a picture of the whole page."""
        height = self.run("return document.documentElement.scrollHeight")
        width = self.run("return document.documentElement.clientWidth")
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.driver.save_screenshot(path)


@contextmanager
def browser() -> Iterator[Browser]:
    """Run a browser with a profile of its own until the block ends."""
    program = debian_package("chromium", "chromium")
    driver_program = debian_package("chromium-driver", "chromedriver")
    options = ChromeOptions()
    options.binary_location = str(program)
    for argument in (
        "--headless=new",
        # Containers give root no sandbox, and little shared memory.
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--hide-scrollbars",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=Service(str(driver_program)))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
