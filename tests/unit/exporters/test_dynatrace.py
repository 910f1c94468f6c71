"""The Dynatrace destination, against a server on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import anyio
import pytest

from otel_evals.destinations import Unaccepted
from otel_evals.errors import ConfigError
from otel_evals.model import Outcome, Score, ScoredRun
from otel_evals_exporters.dynatrace import DynatraceDestination
from tests.support.destinations import KEY
from tests.support.recording_server import RecordingServer, Reply, recording_server
from tests.support.replacing import replace
from tests.support.scored import JUDGED, SPAN, TRACE, scored_run

TONE: dict[str, Outcome] = {"tone": Score(value=0.5)}


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    with recording_server() as server:
        server.reply = lambda _: Reply(202, b"")
        yield server


def export(server: RecordingServer, *runs: ScoredRun, **options: Any) -> Sequence[Unaccepted]:
    async def send() -> Sequence[Unaccepted]:
        target = DynatraceDestination(url=server.url, api_token=KEY, **options)
        try:
            return await target.export(runs)
        finally:
            await target.shutdown()

    return anyio.run(send)


def refusing(*errors: object) -> Reply:
    return Reply(400, json.dumps({"errors": errors}).encode())


def test_a_score_is_a_business_event_of_the_judged_span(server: RecordingServer) -> None:
    scored = scored_run(0, {"hallucination": JUDGED})
    assert export(server, scored) == []
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/api/v2/bizevents/ingest")
    assert request.headers["authorization"] == f"Api-Token {KEY}"
    assert request.headers["content-type"] == "application/json"
    (event,) = request.body
    assert event == {
        "event.type": "gen_ai.evaluation.result",
        "event.provider": "otel-evals",
        "timestamp": "2023-11-14T22:13:22.000Z",
        "trace_id": TRACE,
        "span_id": SPAN,
        "dt.service.name": "shop",
        "gen_ai.evaluation.name": "hallucination",
        "gen_ai.evaluation.score.value": 0.25,
        "gen_ai.evaluation.score.label": "unsupported",
        "gen_ai.evaluation.explanation": "$12.50 is in no tool result",
        "gen_ai.evaluation.spec_id": "hallucination",
        "gen_ai.evaluation.version": "1f3a",
        "gen_ai.evaluation.type": "custom",
        "gen_ai.evaluation.method": "llm_as_judge",
        "gen_ai.request.model": "openai/gpt-5-mini",
        "otel_evals.evaluation_id": scored.evaluations[0].evaluation_id,
        "otel_evals.scorer_version": "1f3a",
        "otel_evals.direction": "higher_is_better",
        "otel_evals.revision": 1,
        "otel_evals.sampling_probability": 0.25,
        "otel_evals.sampling_rule": "ratio(0.25)",
        "otel_evals.judge_model": "openai/gpt-5-mini",
        "otel_evals.judge_tokens": 107,
        "otel_evals.judge_cost_usd": 0.00042,
    }


def test_only_scores_are_sent(server: RecordingServer) -> None:
    assert export(server, scored_run()) == []
    (request,) = server.requests
    names = [event["gen_ai.evaluation.name"] for event in request.body]
    assert names == ["hallucination", "keyword_coverage"]


def test_what_has_no_service_and_no_model_leaves_their_fields_out(server: RecordingServer) -> None:
    scored = scored_run(0, TONE)
    export(server, replace(scored, run=replace(scored.run, resource={})))
    (event,) = server.requests[0].body
    assert event["gen_ai.evaluation.method"] == "code"
    assert not {"dt.service.name", "gen_ai.request.model"} & set(event)


def test_a_conversation_is_named(server: RecordingServer) -> None:
    scored = scored_run(0, TONE)
    whole = tuple(replace(each, conversation_id="c-1") for each in scored.evaluations)
    export(server, replace(scored, evaluations=whole))
    (event,) = server.requests[0].body
    assert (event["gen_ai.conversation.id"], event["span_id"]) == ("c-1", SPAN)


def test_valid_events_beside_a_refused_one_are_not_sent_again(server: RecordingServer) -> None:
    """Dynatrace has taken them, and would have them twice."""
    server.reply = lambda _: refusing({"index": 1, "id": "", "message": f"no timestamp, {KEY}", "source": ""})
    (refused,) = export(server, *(scored_run(n, TONE) for n in range(3)))
    assert refused.evaluation.trace_id == f"{int(TRACE, 16) + 1:032x}"
    assert (str(refused.error), refused.error.reason) == (
        "Dynatrace refused the event: no timestamp, ***",
        "refused",
    )
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "errors",
    [(), ({"index": 3, "message": "x"},), ({"index": -1},), ({"message": "x"},), ({"index": "one"},), ("x",)],
)
def test_a_refusal_that_does_not_tell_of_which_is_halved(
    errors: tuple[object, ...], server: RecordingServer
) -> None:
    server.reply = lambda request: refusing(*errors) if len(request.body) > 1 else Reply(202, b"")
    assert export(server, *(scored_run(n, TONE) for n in range(3))) == []
    assert [len(request.body) for request in server.requests] == [3, 1, 2, 1, 1]


@pytest.mark.parametrize(
    "given",
    [
        "https://abc12345.live.dynatrace.com",
        "https://abc12345.live.dynatrace.com/",
        "https://abc12345.live.dynatrace.com/api/v2/otlp",
        "https://abc12345.live.dynatrace.com/api/v2/",
        "https://abc12345.apps.dynatrace.com",
    ],
)
def test_the_address_of_pages_or_of_otlp_will_do(given: str) -> None:
    place = DynatraceDestination(url=given, api_token=KEY)
    spans = (
        "https://abc12345.live.dynatrace.com/api/v2/otlp/v1/traces",
        {"authorization": f"Api-Token {KEY}"},
    )
    assert place.spans_to() == spans
    page = "https://abc12345.apps.dynatrace.com/ui/apps/dynatrace.distributedtracing/explorer"
    assert place.trace_url(TRACE, SPAN) == f"{page}?traceId={TRACE}&spanId={SPAN}"


@pytest.mark.parametrize(
    "own", ["https://activegate.example.com:9999/e/abc12345", "https://x.example.com/e/1"]
)
def test_own_hosts_keep_their_path_and_tell_no_page(own: str) -> None:
    place = DynatraceDestination(url=own, api_token=KEY)
    assert place.trace_url(TRACE, SPAN) is None
    assert place.spans_to()[0] == f"{own}/api/v2/otlp/v1/traces"  # type: ignore[index]


def test_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DT_ENV_URL", "DT_ENVIRONMENT", "DT_API_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="url: is missing: give it, or set DT_ENV_URL or DT_ENVIRONMENT"):
        DynatraceDestination(api_token=KEY)
    monkeypatch.setenv("DT_ENVIRONMENT", "https://abc12345.apps.dynatrace.com")
    with pytest.raises(ConfigError, match="api_token: is missing: give it, or set DT_API_TOKEN"):
        DynatraceDestination()
    monkeypatch.setenv("DT_API_TOKEN", "dt0s16.PUBLIC.secret")  # a platform token
    where, headers = DynatraceDestination().spans_to() or ("", {})
    assert where.startswith("https://abc12345.live.dynatrace.com/")
    assert headers == {"authorization": "Bearer dt0s16.PUBLIC.secret"}
