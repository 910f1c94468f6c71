"""The Weave destination, against a server on loopback."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Any

import anyio
import pytest

from otel_evals.destinations import ScoreItem, Unaccepted
from otel_evals.errors import ConfigError
from otel_evals.model import Outcome, Score, ScoredRun
from otel_evals_exporters.weave import WeaveDestination
from tests.support.destinations import KEY
from tests.support.recording_server import RecordingServer, recording_server
from tests.support.scored import JUDGED, SPAN, TRACE, scored_run

TONE: dict[str, Outcome] = {"tone": Score(value=0.5)}
BASIC = f"Basic {base64.b64encode(f'api:{KEY}'.encode()).decode()}"
VARIABLES = ("WANDB_API_KEY", "WANDB_ENTITY", "WANDB_PROJECT", "WF_TRACE_SERVER_URL")


@pytest.fixture(autouse=True)
def _no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    with recording_server() as server:
        yield server


def weave(**options: Any) -> WeaveDestination:
    return WeaveDestination(**{"api_key": KEY, "entity": "team", "project": "shop", **options})


def export(server: RecordingServer, *runs: ScoredRun, **options: Any) -> Sequence[Unaccepted]:
    async def send() -> Sequence[Unaccepted]:
        target = weave(url=server.url, **options)
        try:
            return await target.export(runs)
        finally:
            await target.shutdown()

    return anyio.run(send)


def test_a_score_is_feedback_on_the_call_of_the_judged_span(server: RecordingServer) -> None:
    scored = scored_run(0, {"hallucination": JUDGED})
    assert export(server, scored) == []
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/feedback/create")
    assert request.headers["authorization"] == BASIC
    item = ScoreItem(run=scored.run, evaluation=scored.evaluations[0])
    assert request.body == {
        "id": item.uuid,
        "project_id": "team/shop",
        "weave_ref": f"weave:///team/shop/call/{SPAN}",
        "creator": "otel-evals",
        "feedback_type": "otel_evals.hallucination",
        "payload": {
            "name": "hallucination",
            "value": 0.25,
            "label": "unsupported",
            "explanation": "$12.50 is in no tool result",
            "trace_id": TRACE,
            "timestamp": "2023-11-14T22:13:22.000Z",
            "metadata": item.metadata,
        },
    }


def test_failures_are_sent_and_what_was_not_scored_is_not(server: RecordingServer) -> None:
    assert export(server, scored_run()) == []
    payloads = {r.body["payload"]["name"]: r.body["payload"] for r in server.requests}
    assert sorted(payloads) == ["answer_relevancy", "hallucination", "keyword_coverage", "tone"]
    failed = payloads["answer_relevancy"]
    assert (failed["error"], failed["message"]) == ("timeout", "no answer in 30 s")
    assert payloads["tone"]["error"] == "queue_full"
    assert "value" not in failed


@pytest.mark.parametrize(
    ("environment", "traces", "page"),
    [
        ({}, "https://trace.wandb.ai", "https://wandb.ai"),
        ({"WF_TRACE_SERVER_URL": "https://trace.wandb.ai"}, "https://trace.wandb.ai", "https://wandb.ai"),
        ({"WF_TRACE_SERVER_URL": "http://weave-trace:8722"}, "http://weave-trace:8722", None),
    ],
)
def test_the_servers_of_a_deployment(
    environment: dict[str, str], traces: str, page: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    place = weave()
    assert place.spans_to() == (
        f"{traces}/otel/v1/traces",
        {"authorization": BASIC, "project_id": "team/shop"},
    )
    assert place.trace_url(TRACE, SPAN) == (page and f"{page}/team/shop/r/call/{SPAN}")


def test_entity_and_project(monkeypatch: pytest.MonkeyPatch) -> None:
    page = weave(project="our team/web shop", entity=None).trace_url(TRACE, SPAN)
    assert page == f"https://wandb.ai/our%20team/web%20shop/r/call/{SPAN}"
    with pytest.raises(ConfigError, match="entity: is missing: give it, or set WANDB_ENTITY"):
        weave(entity=None)
    for wrong in ("team/", "a/b/c", "/"):
        with pytest.raises(ConfigError, match="project: must be a name, or entity/project"):
            weave(project=wrong)
    for name in ("WANDB_API_KEY", "WANDB_ENTITY", "WANDB_PROJECT"):
        monkeypatch.setenv(name, "given")
    headers = (WeaveDestination().spans_to() or ("", {}))[1]
    assert headers["project_id"] == "given/given"
