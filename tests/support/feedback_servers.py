"""What backends answer when they are asked for feedback: the same six pieces, in two pages or more."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from otel_evals_exporters.opik import opik_id
from tests.support.destinations import PROJECT_ID
from tests.support.recording_server import RecordedRequest, Reply

__all__ = ["BACKENDS", "Said", "answering"]

_TIME = "2026-09-21T14:20:00.500Z"


@dataclass(frozen=True)
class Said:
    name: str
    value: Any
    trace: str
    span: str | None = None
    by: str = "person"
    comment: str | None = None
    time: str = _TIME


def _langfuse(said: Sequence[Said], request: RecordedRequest) -> Any:
    at = int(request.query.get("cursor", ["0"])[0])
    sources = {"person": "ANNOTATION", "api": "API", "judge": "EVAL"}
    scores = []
    for number, each in enumerate(said):
        kinds = {bool: "BOOLEAN", str: "CATEGORICAL"}
        of_span = {"kind": "observation", "id": each.span, "traceId": each.trace}
        score = {"id": str(number), "name": each.name, "value": each.value, "timestamp": each.time}
        score |= {"dataType": kinds.get(type(each.value), "NUMERIC"), "source": sources[each.by]}
        score |= {"subject": of_span if each.span else {"kind": "trace", "id": each.trace}}
        scores.append({**score, "updatedAt": each.time, "comment": each.comment, "authorUserId": "u-1"})
    more = {"cursor": str(at + 3)} if at + 3 < len(said) else {}
    return {"data": scores[at : at + 3], "meta": {"limit": 100, **more}}


def _langsmith(said: Sequence[Said], request: RecordedRequest) -> Any:
    if request.path.endswith("/sessions"):
        return [{"id": PROJECT_ID}]
    types = {"person": "app", "api": "api", "judge": "model"}
    items = []
    for number, each in enumerate(said):
        numeric = None if isinstance(each.value, str) else each.value
        item = {"id": str(UUID(int=number)), "run_id": str(UUID(int=int(each.span or each.trace[:16], 16)))}
        item |= {"key": each.name, "score": numeric, "value": each.value, "comment": each.comment}
        source = {"type": types[each.by], "user_name": "u-1", "metadata": None}
        items.append({**item, "created_at": each.time, "modified_at": each.time, "feedback_source": source})
    at = int(request.query["offset"][0])
    return (items + [items[0]] * (100 - len(items)))[: 100 if at == 0 else 0] if at < 200 else []


def _mlflow(said: Sequence[Said], request: RecordedRequest) -> Any:
    at = int(request.body.get("page_token", 0))
    traces = []
    for number, each in enumerate(said[at : at + 2]):
        source = {"source_type": "HUMAN" if each.by == "person" else "LLM_JUDGE", "source_id": "u-1"}
        assessment = {"assessment_id": f"a-{at + number}", "assessment_name": each.name, "source": source}
        assessment |= {"feedback": {"value": each.value}, "last_update_time": each.time}
        assessment |= {"span_id": each.span} if each.span else {}
        assessment |= {"rationale": each.comment} if each.comment else {}
        expected = {**assessment, "expectation": {"value": "x"}}
        del expected["feedback"]
        traces.append({"trace_id": f"tr-{each.trace}", "assessments": [assessment, expected]})
    more = {"next_page_token": str(at + 2)} if at + 2 < len(said) else {}
    return {"traces": [*traces, {"trace_id": "tr-without"}], **more}


def _phoenix(said: Sequence[Said], request: RecordedRequest) -> Any:
    if request.path == "/v1/projects":
        return {"data": [{"id": "P1", "name": "shop"}], "next_cursor": None}
    kind = "span" if request.path.endswith("span_annotations") else "trace"
    asked = request.query[f"{kind}_ids"]
    found = []
    for each in said:
        of = each.span if kind == "span" else None if each.span else each.trace
        if of not in asked:
            continue
        named = {"score": None, "label": each.value}
        result = named if isinstance(each.value, str) else {"score": float(each.value), "label": None}
        item = {f"{kind}_id": of, "name": each.name, "result": {**result, "explanation": each.comment}}
        item |= {"annotator_kind": "HUMAN" if each.by == "person" else "LLM", "user_id": "u-1"}
        found.append({**item, "identifier": "", "created_at": each.time, "updated_at": each.time})
    at = int(request.query.get("cursor", ["0"])[0])
    return {"data": found[at : at + 1], "next_cursor": str(at + 1) if at + 1 < len(found) else None}


def _opik(said: Sequence[Said], request: RecordedRequest) -> Any:
    kind, page = request.path.rsplit("/", 1)[1], int(request.query["page"][0])
    sources = {"person": "ui", "api": "sdk", "judge": "online_scoring"}
    rows: list[dict[str, Any]] = []
    for each in said:
        if (kind == "spans") != bool(each.span):
            continue
        if isinstance(each.value, str):  # it has numbers only
            continue
        one = {"value": float(each.value), "reason": each.comment, "source": sources[each.by]}
        one |= {"last_updated_at": each.time}
        score = {"name": each.name, **one, "value_by_author": {"u-1": one}}
        id = opik_id(each.span or each.trace, 1_790_000_000_000)
        rows.append({"id": str(id), "feedback_scores": [score]})
    rows += [{"id": str(opik_id("0" * 32, 1))}] * (200 - len(rows))  # a full page, and an empty one
    return {"page": page, "content": rows if page == 1 else []}


_ANSWERS: dict[str, Callable[[Sequence[Said], RecordedRequest], Any]] = {
    "langfuse": _langfuse,
    "langsmith": _langsmith,
    "mlflow": _mlflow,
    "opik": _opik,
    "phoenix": _phoenix,
}

BACKENDS = sorted(_ANSWERS)


def answering(name: str, said: Sequence[Said]) -> Callable[[RecordedRequest], Reply]:
    """What a server of this name answers."""
    return lambda request: Reply(body=json.dumps(_ANSWERS[name](said, request)).encode())
