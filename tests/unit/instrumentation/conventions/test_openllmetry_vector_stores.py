"""Vector stores under Traceloop: documents as span events."""

from __future__ import annotations

import json

from otel_evals.model import SpanEvent
from tests.support.trace_builder import TraceBuilder

RESULT = "db.query.result"


def test_what_a_query_found_are_documents() -> None:
    found = (
        SpanEvent(
            name=RESULT,
            attributes={
                RESULT + ".id": "d1",
                RESULT + ".document": "Tides turn.",
                RESULT + ".distance": 0.2,
                RESULT + ".metadata": json.dumps({"page": 3}),
            },
        ),
        SpanEvent(name=RESULT, attributes={RESULT + ".id": "d2", RESULT + ".score": 0.9}),
    )
    spans = TraceBuilder("app").add("agent", {"traceloop.span.kind": "agent"})
    spans.add(
        "chroma.query", {"db.system": "chroma"}, scope="opentelemetry.instrumentation.chromadb", events=found
    )
    spans.add("chroma.add", {"db.system": "chroma"}, scope="opentelemetry.instrumentation.chromadb")
    assert [(d.id, d.content, d.score, d.metadata) for d in spans.run.documents] == [
        ("d1", "Tides turn.", None, {"page": 3}),
        ("d2", None, 0.9, {}),
    ]
