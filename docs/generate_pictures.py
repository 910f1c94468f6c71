"""Makes the pictures of docs/pictures: `python docs/generate_pictures.py`, with Chromium on the PATH.

They show the monitor's page on the history that `otel-evals demo` writes. `card.png` is shown where a link
to the site is shared; `python docs/generate_pictures.py card` makes it alone.
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
WIDE, PHONE = 1280, 390
SCORER = "/scorer?scorer=grounded_in_tools&agent=support"
CARD = """
<style>
  body { margin: 0; width: 1200px; height: 630px; overflow: hidden; background: #10304a; color: #fff;
         font-family: sans-serif; display: flex; }
  div { width: 470px; padding: 90px 50px; }
  h1 { font-size: 76px; margin: 0 0 30px; white-space: nowrap; }
  p { font-size: 34px; line-height: 1.35; margin: 0; color: #d8e6f2; }
  img { height: 1000px; margin: 60px 0 0 20px; border-radius: 12px; }
</style>
<div><h1>otel-evals</h1>
<p>Scores LLM agent traffic live, in the tracing backend that you already use.</p></div>
<img src="monitor-scorer.png">
"""


def main() -> None:
    """Run the demo, serve its history, and take a picture of each page; then make the card."""
    PICTURES.mkdir(exist_ok=True)
    if sys.argv[1:] != ["card"]:
        picture_monitor()
    with browser_page() as page:
        make_card(page)


def picture_monitor() -> None:
    """Take a picture of each page of the monitor."""
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
    """A picture of each page, one in dark mode, and one on a phone."""
    page.goto(f"{address}/runs?scorer=grounded_in_tools&agent=support&order=worst")
    worst = page.locator("tbody tr a[href^='/runs/']").first.get_attribute("href")
    for name, place, height in (
        ("scorers", "/", 1150),
        ("scorer", SCORER, 1500),
        ("runs", "/runs", 640),
        ("run", str(worst), 960),
        ("alarms", "/", 410),
        ("labels", "/labels", 560),
    ):
        take(page, f"monitor-{name}", address + place, (WIDE, height))
    take(page, "monitor-scorer-dark", address + SCORER, (WIDE, 900), scheme="dark")
    take(page, "monitor-phone", address + "/", (PHONE, 800))


def take(page: Page, name: str, address: str, size: tuple[int, int], *, scheme: str = "light") -> None:
    """A picture of the upper part of a page."""
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.goto(address)
    page.locator("#live.on").wait_for()
    page.screenshot(path=PICTURES / f"{name}.png")


def make_card(page: Page) -> None:
    """The picture that other sites show for a link to this one."""
    page.set_viewport_size({"width": 1200, "height": 630})
    with tempfile.NamedTemporaryFile("w", dir=PICTURES, suffix=".html") as file:
        file.write(CARD)
        file.flush()
        page.goto(f"file://{file.name}")
        page.screenshot(path=PICTURES / "card.png")


if __name__ == "__main__":
    main()
