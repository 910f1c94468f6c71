"""The topmost spans of a trace, in time linear in its spans, however deep they are."""

from __future__ import annotations

from collections.abc import Callable, Collection


def tops_of(span_ids: Collection[str], above: Callable[[str], str | None]) -> dict[str, str]:
    """Return the topmost of these spans above each of them; `above` returns the id above a span.

    Malformed traces may have cycles, all of whose spans have the same top.
    """
    tops: dict[str, str] = {}
    for span_id in span_ids:
        way: dict[str, None] = {}
        top = span_id
        while top not in tops and top not in way:
            way[top] = None
            upper = above(top)
            if upper is None or upper not in span_ids:
                break
            top = upper
        tops.update(dict.fromkeys(way, tops.get(top, top)))
    return tops
