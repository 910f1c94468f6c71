"""Makes the pictures of docs/pictures: `python docs/generate_pictures.py`, with Chromium on the PATH.

They show the monitor's page on the history that `otel-evals demo` writes.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.support.browser import browser_page  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
COMMAND = [sys.executable, "-c", "from otel_evals._internal.cli import main; main()"]
WIDE, PHONE = 1100, 390
SCORER = "/scorer?scorer=grounded_in_tools&agent=support"


def main() -> None:
    """Run the demo, serve its history, and take a picture of each page."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*COMMAND, "demo", "--out", folder], check=True, stdout=subprocess.DEVNULL)
        monitor = [*COMMAND, "monitor", "results.db", "--port", "0"]
        monitor += ["--floor", "grounded_in_tools=0.9", "--link", "jaeger=http://localhost:16686"]
        with (
            subprocess.Popen(monitor, cwd=folder, stdout=subprocess.PIPE, text=True) as served,
            browser_page() as page,
        ):
            try:
                assert served.stdout is not None
                found = re.search(r"http://\S+", served.stdout.readline())
                assert found is not None
                take_all(page, found[0].rstrip("/"))
            finally:
                served.terminate()


def take_all(page: Page, address: str) -> None:
    """A picture of each page, of one in the dark, and of one on a phone."""
    page.goto(f"{address}/runs?scorer=grounded_in_tools&agent=support&order=worst")
    worst = page.locator("tbody tr a[href^='/runs/']").first.get_attribute("href")
    for name, place, height in (
        ("scorers", "/", 900),
        ("scorer", SCORER, 1280),
        ("runs", "/runs?scorer=grounded_in_tools&agent=support&order=worst", 640),
        ("run", str(worst), 900),
        ("alarms", "/alarms", 560),
        ("labels", "/labels", 560),
    ):
        take(page, f"monitor-{name}", address + place, (WIDE, height))
    take(page, "monitor-scorer-dark", address + SCORER, (WIDE, 1280), scheme="dark")
    take(page, "monitor-phone", address + "/", (PHONE, 800))


def take(page: Page, name: str, address: str, size: tuple[int, int], *, scheme: str = "light") -> None:
    """A picture of the upper part of a page."""
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.goto(address)
    page.screenshot(path=PICTURES / f"{name}.png")


if __name__ == "__main__":
    main()
