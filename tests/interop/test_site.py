"""The documentation's site in a real browser, at the widths of a phone, a laptop and a large screen."""

from __future__ import annotations

import functools
import http.server
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.support.browser import CHROMIUM, browser_page, picture

ROOT = Path(__file__).parents[2]
PLACE = Path(os.environ.get("OTEL_EVALS_INTEROP", str(ROOT / ".venv-interop")) + "-site")
MKDOCS = PLACE / "bin" / "mkdocs"
VIEWS = ((390, "light"), (1280, "light"), (1280, "dark"), (1920, "light"))
PAGES = ["", "first-judge/", "monitoring/"]
PAGES += [f"frameworks/{path.stem}/" for path in sorted((ROOT / "docs" / "frameworks").glob("*.md"))]

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(300),
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
    pytest.mark.skipif(not MKDOCS.exists(), reason="run tests/interop/setup.sh first"),
]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of the built site."""
    folder = tmp_path_factory.mktemp("site")
    build = [MKDOCS, "build", "--strict", "--site-dir", folder]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser_page() as opened:
        yield opened


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_three_widths_in_both_themes(name: str, site: str, page: Page, tmp_path: Path) -> None:
    """Code and tables scroll by themselves; nothing else is wider than the screen."""
    title = name.strip("/").replace("/", "-") or "landing"
    for width, scheme in VIEWS:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.goto(site + name)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("h1").count() == 1
        page.screenshot(path=picture(tmp_path, f"site-{title}-{scheme}-{width}.png"))
    broken = "els => els.filter(e => e.complete && !e.naturalWidth).map(e => e.src)"
    assert page.eval_on_selector_all("article img", broken) == []


@pytest.mark.parametrize("word", ["langgraph", "crewai"])
def test_the_search_finds_a_framework_s_page(word: str, site: str, page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(site)
    page.get_by_role("textbox", name="Search").first.fill(word)
    first = page.locator(".md-search-result__link").first
    first.wait_for()
    assert f"frameworks/{word}/" in str(first.get_attribute("href"))


def test_the_landing_page_has_what_a_site_needs(site: str, page: Page) -> None:
    """Repository, version, themes, an edit link, the next page, and a card for links from elsewhere."""
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(site)
    assert page.locator("a.md-source").count() >= 1
    assert "0." in page.locator(".md-header__topic").first.inner_text()
    assert page.locator("[data-md-component=palette] input").count() == 3
    assert str(page.locator("a[rel=edit]").get_attribute("href")).endswith("docs/index.md")
    assert page.locator("a.md-footer__link--next").count() == 1
    card = str(page.locator("meta[property='og:image']").get_attribute("content"))
    assert (ROOT / "docs" / "pictures" / card.rpartition("/")[2]).exists()
    assert [each.strip() for each in page.locator(".md-tabs__link").all_inner_texts()] == [
        "Start",
        "How-to",
        "Reference",
        "Project",
    ]
