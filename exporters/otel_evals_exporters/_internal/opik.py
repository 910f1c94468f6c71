"""Reads feedback scores back from Opik, and computes its ids."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal
from uuid import UUID

from otel_evals.destinations import HttpClient
from otel_evals.model import Feedback
from otel_evals.sources import FeedbackQuery, ask, moment, paged, readable

_BY: dict[str, Literal["person", "api"]] = {"ui": "person", "sdk": "api"}
_HASHED = (1 << 80) - 1
_PAGE = 200


async def opik_feedback(
    http: HttpClient, project: str, query: FeedbackQuery
) -> AsyncIterator[Feedback | None]:
    """Yield the feedback scores of recorded runs' traces and spans that began since a time.

    Opik's ids contain a hash of the OpenTelemetry id, so recorded runs are matched by that hash.
    """
    traces = {_hashed(opik_id(trace, 0)): (trace, None) for trace, _ in query.judged}
    spans = {_hashed(opik_id(span, 0)): (trace, span) for trace, span in query.judged}
    for kind, known in (("traces", traces), ("spans", spans)):
        async for found in paged(partial(_page, http, kind, project, query.since_text, known), 1):
            yield readable(found, _feedback)


def opik_id(hex_id: str, milliseconds: int) -> UUID:
    """Return Opik's id of a trace or span: a UUID of version 7 with a hash in place of the random bits."""
    digest = hashlib.sha256(bytes.fromhex(hex_id)).digest()[:10]
    number = int.from_bytes(milliseconds.to_bytes(6, "big") + digest, "big")
    return UUID(int=number & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62)


def _hashed(given: UUID) -> int:
    return given.int & _HASHED


async def _page(
    http: HttpClient,
    kind: str,
    project: str,
    since: str,
    known: Mapping[int, tuple[str, str | None]],
    number: int,
) -> tuple[Sequence[Any], Any]:
    params = {"project_name": project, "page": number, "size": _PAGE, "from_time": since, "truncate": "true"}
    rows = (await ask(http, "GET", f"/v1/private/{kind}", params=params)).get("content") or ()
    found = [each for row in rows for each in _scores(row, known)]
    return found, number + 1 if len(rows) >= _PAGE else None


def _scores(
    row: Mapping[str, Any], known: Mapping[int, tuple[str, str | None]]
) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Yield a row's scores, one per author."""
    where = known.get(_hashed(UUID(row["id"])))
    for score in (row.get("feedback_scores") or ()) if where else ():
        authors = score.get("value_by_author") or {score.get("last_updated_by") or "": score}
        for author, said in authors.items():
            yield where, {**score, **{k: v for k, v in said.items() if v is not None}, "author": author}


def _feedback(found: tuple[Any, Mapping[str, Any]]) -> Feedback:
    (trace_id, span_id), score = found
    return Feedback(
        name=score["name"],
        value=score["value"],
        by=_BY.get(score["source"], "judge"),
        author=score["author"],
        time=moment(score.get("last_updated_at") or score["created_at"]),
        trace_id=trace_id,
        span_id=span_id,
        comment=score.get("reason"),
    )
