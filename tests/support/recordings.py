"""A small recording in OTLP/JSON: two traces with a link, and a log record."""

from __future__ import annotations

from typing import Any

__all__ = ["NOW", "REQUEST", "TRACE", "span"]

TRACE, OTHER = "0af7651916cd43dd8448eb211c80319c", "1af7651916cd43dd8448eb211c80319d"
NOW = 1_700_000_000_000_000_000


def span(span_id: str, parent: str = "", trace: str = TRACE, **more: Any) -> dict[str, Any]:
    return {
        "traceId": trace,
        "spanId": span_id,
        "parentSpanId": parent,
        "name": f"span {span_id[0]}",
        "startTimeUnixNano": str(NOW),
        "endTimeUnixNano": str(NOW + 2_000),
        **more,
    }


REQUEST = {
    "resourceSpans": [
        {
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]},
            "scopeSpans": [
                {
                    "scope": {"name": "tests", "version": "2"},
                    "spans": [
                        span("a" * 16, events=[{"name": "e", "timeUnixNano": str(NOW + 1_000)}]),
                        span("b" * 16, "a" * 16),
                        span("c" * 16, trace=OTHER, links=[{"traceId": TRACE, "spanId": "b" * 16}]),
                    ],
                }
            ],
        }
    ],
    "resourceLogs": [
        {
            "scopeLogs": [
                {
                    "logRecords": [
                        {
                            "timeUnixNano": str(NOW + 500),
                            "severityNumber": 9,
                            "body": {"stringValue": "hello"},
                            "traceId": TRACE,
                            "spanId": "b" * 16,
                        }
                    ]
                }
            ]
        }
    ],
}
