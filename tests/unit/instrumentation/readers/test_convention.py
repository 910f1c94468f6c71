"""Kinds that OpenTelemetry's names tell, with and without an operation name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_evals.model import OperationKind
from tests.support.trace_builder import KNOWN_CONVENTIONS, span

MESSAGES = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Hi."}]}])
INFERENCE, TOOL, AGENT = OperationKind.INFERENCE, OperationKind.TOOL, OperationKind.AGENT


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ({"gen_ai.input.messages": MESSAGES}, INFERENCE),
        ({"gen_ai.output.messages": MESSAGES}, INFERENCE),
        ({"gen_ai.input.messages": MESSAGES, "gen_ai.agent.name": "a"}, AGENT),
        ({"gen_ai.tool.call.id": "c1"}, TOOL),
        ({"gen_ai.tool.call.arguments": "{}"}, TOOL),
        (
            {"gen_ai.operation.name": "ask", "gen_ai.request.model": "m", "gen_ai.input.messages": MESSAGES},
            INFERENCE,
        ),
        ({"gen_ai.operation.name": "plan", "gen_ai.request.model": "m"}, OperationKind.OTHER),
        ({"gen_ai.operation.name": "ask", "gen_ai.input.messages": MESSAGES}, OperationKind.OTHER),
        (
            {"gen_ai.operation.name": "invoke_workflow", "gen_ai.input.messages": MESSAGES},
            OperationKind.WORKFLOW,
        ),
        ({"traceloop.span.kind": "llm"}, INFERENCE),
        ({"llm.request.type": "rerank"}, OperationKind.RETRIEVAL),
    ],
)
def test_a_kind_is_told_by_what_only_such_spans_have(attributes: dict[str, Any], kind: OperationKind) -> None:
    operation = KNOWN_CONVENTIONS.read(span(1, attributes))
    assert operation is not None
    assert operation.kind is kind
