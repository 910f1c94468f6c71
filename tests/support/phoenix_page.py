"""Phoenix's page of a trace, as a person opens it."""

from __future__ import annotations

from playwright.sync_api import Locator, Page

__all__ = ["open_annotations"]


def open_annotations(page: Page, phoenix: str, trace_id: str, span: str) -> Locator:
    """Open a trace, select the span of that name, and unfold its annotations as a table.

    Returns the part of the page that shows the trace.
    """
    page.goto(f"{phoenix}/redirects/traces/{trace_id}", wait_until="domcontentloaded")
    trace = page.get_by_test_id("application-drawer-plane")
    trace.get_by_text(span, exact=True).first.click(timeout=60_000)
    trace.get_by_role("button", name="Annotations").first.click(timeout=30_000)
    # Unfolded, the first "Table" of the page is that of the annotations.
    trace.get_by_text("List", exact=True).wait_for(timeout=30_000)
    trace.get_by_text("Table", exact=True).first.click()
    return trace
