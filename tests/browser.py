"""A real browser for the tests: Debian's Chromium without a window, through its own driver."""

import base64
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from product import lacking

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
DRIVER = shutil.which("chromedriver")
ARTEFACTS = Path(os.environ.get("RSPO_SCREENSHOTS", Path(__file__).parent.parent / "screenshots"))
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


def needs_browser() -> None:
    if not BROWSER or not DRIVER:
        lacking(
            "no Chromium with chromedriver on this machine (Debian: apt-get install chromium "
            "chromium-driver)"
        )


@contextmanager
def chromium() -> Iterator[Any]:
    """A driver with a profile of its own that is gone afterwards."""
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = ChromeOptions()
        options.binary_location = BROWSER or ""
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = Chrome(options=options, service=ChromeService(DRIVER))
        try:
            driver.get("about:blank")  # its own start page makes requests
            yield driver
        finally:
            driver.quit()


def show(driver: Any, page: Path, width: int = 1280, height: int = 1000, **media: str) -> None:
    """Open a page; `media` as `prefers_color_scheme="dark"`. What was logged before is
    forgotten."""
    features = [{"name": name.replace("_", "-"), "value": value} for name, value in media.items()]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    for kind in ("browser", "performance"):
        driver.get_log(kind)
    driver.get(page.resolve().as_uri())


def requests(driver: Any) -> list[str]:
    """Every address that the page asked for."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [
        m["params"]["request"]["url"]
        for m in messages
        if m["method"] == "Network.requestWillBeSent"
    ]


def screenshot(driver: Any, name: str) -> None:
    """The whole page, kept for people to look at."""
    size = driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
    clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 6000), "scale": 1}
    shot = driver.execute_cdp_cmd(
        "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip}
    )
    ARTEFACTS.mkdir(exist_ok=True)
    (ARTEFACTS / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))
