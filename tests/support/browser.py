"""A headless browser for looking at real pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

__all__ = ["CHROMIUM", "browser_page", "picture"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
"""Path of the browser, or None where there is none."""

_QUIET = (
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-sandbox",  # in a container, as root
)


@contextmanager
def browser_page() -> Iterator[Page]:
    """A page of a browser that calls nobody but the address it is given."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(_QUIET))
        try:
            yield browser.new_page(viewport={"width": 1700, "height": 950})
        finally:
            browser.close()


def picture(folder: Path, name: str) -> Path:
    """Where a screenshot goes: the folder named by OTEL_EVALS_SCREENSHOTS, to look at it afterwards."""
    target = Path(os.environ.get("OTEL_EVALS_SCREENSHOTS", folder))
    target.mkdir(parents=True, exist_ok=True)
    return target / name
