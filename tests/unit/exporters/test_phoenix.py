"""The Phoenix destination, against a server on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from otel_evals.errors import ConfigError, DestinationError
from otel_evals.model import Operation, OperationKind, Outcome, Score, ScoredRun, SpanRecord
from otel_evals_exporters.phoenix import PhoenixDestination
from tests.support.recording_server import RecordingServer, Reply, recording_server
from tests.support.replacing import replace
from tests.support.scored import SPAN, TRACE, scored_run


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    with recording_server() as server:
        yield server


def sent(server: RecordingServer, kind: str = "span") -> list[dict[str, Any]]:
    posted = [request for request in server.requests if request.path == f"/v1/{kind}_annotations"]
    return [annotation for request in posted for annotation in request.body["data"]]


def send(destination: PhoenixDestination, *runs: ScoredRun) -> None:
    async def export() -> None:
        try:
            for unaccepted in await destination.export(runs):
                raise unaccepted.error
        finally:
            await destination.shutdown()

    anyio.run(export)


def test_every_score_becomes_an_annotation_of_its_span(server: RecordingServer) -> None:
    send(PhoenixDestination(url=server.url), scored_run())
    assert all("authorization" not in request.headers for request in server.requests)
    judged, by_code = sent(server)
    assert judged == {
        "span_id": SPAN,
        "name": "hallucination",
        "annotator_kind": "LLM",
        "identifier": "hallucination@1f3a",
        "result": {"score": 0.25, "label": "unsupported", "explanation": "$12.50 is in no tool result"},
        "metadata": {
            "evaluation_id": f"{TRACE[:8]}-{SPAN}-hallucination-1f3a",
            "scorer_version": "1f3a",
            "direction": "higher_is_better",
            "revision": 1,
            "sampling_probability": 0.25,
            "sampling_rule": "ratio(0.25)",
            "judge_model": "openai/gpt-5-mini",
            "judge_tokens": 107,
            "judge_cost_usd": 0.00042,
        },
    }
    assert (by_code["name"], by_code["annotator_kind"]) == ("keyword_coverage", "CODE")
    assert by_code["result"] == {"score": 1.0}
    assert "judge_model" not in by_code["metadata"]


def test_the_scores_of_whole_runs_annotate_their_trace_too(server: RecordingServer) -> None:
    whole = scored_run(outcomes={"tone": Score(value=0.5)})
    (evaluation,) = whole.evaluations
    part = replace(whole, evaluations=(replace(evaluation, span_id="b7ad6b7169203331"),))
    send(PhoenixDestination(url=server.url), whole, part)
    of_spans = sent(server)
    assert [a["span_id"] for a in of_spans] == [SPAN, "b7ad6b7169203331"]
    (trace,) = sent(server, "trace")
    assert (trace["trace_id"], trace["identifier"]) == (TRACE, f"tone@1f3a/{SPAN}")
    same = ("name", "annotator_kind", "result", "metadata")
    assert {key: trace[key] for key in same} == {key: of_spans[0][key] for key in same}


def test_a_score_about_an_operation_annotates_its_span_and_the_trace(server: RecordingServer) -> None:
    span = SpanRecord(trace_id=TRACE, span_id="b7ad6b7169203331")
    operation = Operation(span=span, kind=OperationKind.TOOL, convention="test")
    whole = scored_run(outcomes={"failure_step": Score(value=0.0, span_id=span.span_id)})
    send(PhoenixDestination(url=server.url), replace(whole, run=replace(whole.run, operations=(operation,))))
    assert [a["span_id"] for a in sent(server)] == [span.span_id]
    assert [a["trace_id"] for a in sent(server, "trace")] == [TRACE]


def test_a_conversations_score_stands_beside_that_of_its_last_run(server: RecordingServer) -> None:
    """On the same span and trace, by the same scorer: neither overwrites the other."""
    run = scored_run(outcomes={"tone": Score(value=0.5)})
    (evaluation,) = run.evaluations
    whole = replace(run, evaluations=(replace(evaluation, conversation_id="c1"),))
    send(PhoenixDestination(url=server.url), run, whole)
    assert [a["identifier"] for a in sent(server)] == ["tone@1f3a", "tone@1f3a/conversation"]
    traces = [a["identifier"] for a in sent(server, "trace")]
    assert traces == [f"tone@1f3a/{SPAN}", f"tone@1f3a/conversation/{SPAN}"]
    assert sent(server)[1]["metadata"]["conversation_id"] == "c1"
    (session,) = sent(server, "session")
    assert (session["session_id"], session["identifier"]) == ("c1", "tone@1f3a/conversation")
    assert session["result"] == {"score": 0.5}


def test_text_that_a_database_cannot_hold_is_cleaned(server: RecordingServer) -> None:
    odd = Score(value=1.0, label="a\x00b", explanation="lone \ud800 and nul \x00")
    send(PhoenixDestination(url=server.url), scored_run(outcomes={"odd": odd}))
    assert sent(server)[0]["result"] == {"score": 1.0, "label": "ab", "explanation": "lone ? and nul "}


def test_endpoint_and_key_come_from_the_environment(
    server: RecordingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHOENIX_COLLECTOR_ENDPOINT", f"{server.url}/v1/traces")
    monkeypatch.setenv("PHOENIX_API_KEY", "from-env")
    outcomes: dict[str, Outcome] = {"tone": Score(value=0.5)}
    send(PhoenixDestination(), scored_run(outcomes=outcomes))
    send(PhoenixDestination(url=f"{server.url}/", api_key="given"), scored_run(outcomes=outcomes))
    keys = [request.headers["authorization"] for request in server.requests]
    assert keys == ["Bearer from-env"] * 2 + ["Bearer given"] * 2


@pytest.mark.parametrize(("waits", "asked"), [("7", 7.0), ("soon", None)])
def test_the_wait_a_server_asks_for_is_read(server: RecordingServer, waits: str, asked: float | None) -> None:
    server.reply = lambda _: Reply(429, b"no, because of reasons", {"Retry-After": waits})
    with pytest.raises(DestinationError, match="429: no, because of reasons") as caught:
        send(PhoenixDestination(url=server.url), scored_run())
    assert (caught.value.retryable, caught.value.retry_after) == (True, asked)


def test_a_missing_httpx_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install .*\[http\]"):
        PhoenixDestination()


def test_a_later_revision_overwrites_and_another_version_does_not(server: RecordingServer) -> None:
    scored = scored_run(outcomes={"tone": Score(value=0.5)})
    (evaluation,) = scored.evaluations
    later = replace(scored, evaluations=(replace(evaluation, revision=2),))
    other = replace(scored, evaluations=(replace(evaluation, evaluation_id="b", scorer_version="2b"),))
    for each in (scored, later, other):
        send(PhoenixDestination(url=server.url), each)
    assert [a["identifier"] for a in sent(server)] == ["tone@1f3a", "tone@1f3a", "tone@2b"]
