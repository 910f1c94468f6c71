"""The Phoenix destination, against an HTTP server on loopback that answers by script."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anyio
import pytest

from otel_evals._internal.deliver.fanout import FanOut
from otel_evals.destinations import DestinationStats, Retry
from otel_evals.errors import ConfigError, DestinationError
from otel_evals.model import Operation, OperationKind, Outcome, Score, ScoredRun, SpanRecord
from otel_evals_exporters.phoenix import PhoenixDestination
from tests.support.replacing import replace
from tests.support.scored import SPAN, TRACE, scored_run


@dataclass
class Answer:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[Answer] = []
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    @property
    def annotations(self) -> list[dict[str, Any]]:
        return self.posted("/v1/span_annotations")

    def posted(self, path: str) -> list[dict[str, Any]]:
        return [annotation for to, _, body in self.requests if to == path for annotation in body["data"]]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each answer waits 40 ms for an acknowledgement
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        answer = self.server.script.pop(0) if self.server.script else Answer()
        time.sleep(answer.delay)
        text = b'{"data": []}' if answer.status == 200 else b"no, because of reasons"
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class named it)
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def send(destination: PhoenixDestination, *runs: ScoredRun) -> None:
    async def export() -> None:
        try:
            for unaccepted in await destination.export(runs):
                raise unaccepted.error
        finally:
            await destination.shutdown()

    anyio.run(export)


def test_every_score_becomes_an_annotation_of_its_span(server: Server) -> None:
    send(PhoenixDestination(url=server.url), scored_run())
    assert all("authorization" not in headers for _, headers, _ in server.requests)
    judged, by_code = server.annotations
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


def test_the_scores_of_whole_runs_annotate_their_trace_too(server: Server) -> None:
    whole = scored_run(outcomes={"tone": Score(value=0.5)})
    (evaluation,) = whole.evaluations
    part = replace(whole, evaluations=(replace(evaluation, span_id="b7ad6b7169203331"),))
    send(PhoenixDestination(url=server.url), whole, part)
    assert [a["span_id"] for a in server.annotations] == [SPAN, "b7ad6b7169203331"]
    (trace,) = server.posted("/v1/trace_annotations")
    assert (trace["trace_id"], trace["identifier"]) == (TRACE, f"tone@1f3a/{SPAN}")
    same = ("name", "annotator_kind", "result", "metadata")
    assert {key: trace[key] for key in same} == {key: server.annotations[0][key] for key in same}


def test_a_score_about_an_operation_annotates_its_span_and_the_trace(server: Server) -> None:
    span = SpanRecord(trace_id=TRACE, span_id="b7ad6b7169203331")
    operation = Operation(span=span, kind=OperationKind.TOOL, convention="test")
    whole = scored_run(outcomes={"failure_step": Score(value=0.0, span_id=span.span_id)})
    send(PhoenixDestination(url=server.url), replace(whole, run=replace(whole.run, operations=(operation,))))
    assert [a["span_id"] for a in server.annotations] == [span.span_id]
    assert [a["trace_id"] for a in server.posted("/v1/trace_annotations")] == [TRACE]


def test_a_conversations_score_stands_beside_that_of_its_last_run(server: Server) -> None:
    """On the same span and trace, by the same scorer: neither overwrites the other."""
    run = scored_run(outcomes={"tone": Score(value=0.5)})
    (evaluation,) = run.evaluations
    whole = replace(run, evaluations=(replace(evaluation, conversation_id="c1"),))
    send(PhoenixDestination(url=server.url), run, whole)
    assert [a["identifier"] for a in server.annotations] == ["tone@1f3a", "tone@1f3a/conversation"]
    assert [a["identifier"] for a in server.posted("/v1/trace_annotations")] == [
        f"tone@1f3a/{SPAN}",
        f"tone@1f3a/conversation/{SPAN}",
    ]
    assert server.annotations[1]["metadata"]["conversation_id"] == "c1"
    (session,) = server.posted("/v1/session_annotations")
    assert (session["session_id"], session["identifier"]) == ("c1", "tone@1f3a/conversation")
    assert session["result"] == {"score": 0.5}


def test_traces_can_be_left_alone(server: Server) -> None:
    send(PhoenixDestination(url=server.url, traces=False), scored_run())
    assert [path for path, _, _ in server.requests] == ["/v1/span_annotations"]


def test_only_finite_scores_are_sent(server: Server) -> None:
    outcomes: dict[str, Outcome] = {"nan": Score(value=float("nan")), "inf": Score(value=float("inf"))}
    with pytest.raises(DestinationError, match="no place for nan = nan"):
        send(PhoenixDestination(url=server.url), scored_run(outcomes=outcomes))
    assert not server.requests


def test_the_reserved_name_is_avoided(server: Server) -> None:
    send(PhoenixDestination(url=server.url), scored_run(outcomes={"note": Score(value=1.0)}))
    assert [a["name"] for a in server.annotations] == ["otel_evals.note"]


def test_explanations_can_be_withheld(server: Server) -> None:
    send(PhoenixDestination(url=server.url, content=False), scored_run())
    assert server.annotations[0]["result"] == {"score": 0.25, "label": "unsupported"}


def test_text_that_a_database_cannot_hold_is_cleaned(server: Server) -> None:
    odd = Score(value=1.0, label="a\x00b", explanation="lone \ud800 and nul \x00")
    send(PhoenixDestination(url=server.url), scored_run(outcomes={"odd": odd}))
    assert server.annotations[0]["result"] == {"score": 1.0, "label": "ab", "explanation": "lone ? and nul "}


def test_endpoint_and_key_come_from_the_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHOENIX_COLLECTOR_ENDPOINT", f"{server.url}/v1/traces")
    monkeypatch.setenv("PHOENIX_API_KEY", "from-env")
    send(PhoenixDestination(traces=False), scored_run())
    given = PhoenixDestination(url=f"{server.url}/", api_key="given", headers={"x-team": "a"}, traces=False)
    send(given, scored_run())
    (path, first, _), (other, second, _) = server.requests
    assert path == other == "/v1/span_annotations"
    assert first["authorization"] == "Bearer from-env"
    assert (second["authorization"], second["x-team"]) == ("Bearer given", "a")


@pytest.mark.parametrize(
    ("status", "retryable"),
    [
        (429, True),
        (408, True),
        (500, True),
        (503, True),
        (400, False),
        (401, False),
        (404, False),
        (422, False),
    ],
)
def test_refusals_say_whether_another_try_may_help(server: Server, status: int, retryable: bool) -> None:
    server.script = [Answer(status)] * 3
    with pytest.raises(DestinationError, match=f"{status}: no, because of reasons") as caught:
        send(PhoenixDestination(url=server.url), scored_run())
    assert (caught.value.retryable, caught.value.retry_after) == (retryable, None)


@pytest.mark.parametrize(
    ("ahead", "low", "high"),
    [(None, 7.0, 7.0), (3600, 3000.0, 3601.0), (-3600, 0.0, 0.0)],
    ids=["seconds", "a date to come", "a date gone by"],
)
def test_the_wait_a_server_asks_for_is_read(
    server: Server, ahead: float | None, low: float, high: float
) -> None:
    header = "7" if ahead is None else formatdate(time.time() + ahead, usegmt=True)
    server.script = [Answer(429, {"Retry-After": header})]
    with pytest.raises(DestinationError) as caught:
        send(PhoenixDestination(url=server.url), scored_run())
    asked = caught.value.retry_after
    assert asked is not None
    assert low <= asked <= high


def test_a_wait_that_makes_no_sense_is_ignored(server: Server) -> None:
    server.script = [Answer(429, {"Retry-After": "soon"})]
    with pytest.raises(DestinationError) as caught:
        send(PhoenixDestination(url=server.url), scored_run())
    assert caught.value.retry_after is None


def test_a_server_that_is_not_there_is_worth_another_try() -> None:
    with socket.socket() as bound:  # its port is taken, and nobody listens on it
        bound.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(DestinationError, match="was not reached: ConnectError") as caught:
            send(PhoenixDestination(url=nobody), scored_run())
    assert caught.value.retryable


def test_a_server_that_does_not_answer_is_worth_another_try(server: Server) -> None:
    server.script = [Answer(delay=0.3)]
    with pytest.raises(DestinationError, match=r"took longer than 0\.05 s") as caught:
        send(PhoenixDestination(url=server.url, timeout=0.05), scored_run())
    assert caught.value.retryable


def test_the_fan_out_repeats_a_batch_until_it_is_taken(server: Server) -> None:
    server.script = [Answer(429, {"Retry-After": "1"}), Answer(500)]

    async def deliver() -> tuple[bool, DestinationStats, float]:
        phoenix = PhoenixDestination(url=server.url, traces=False)
        fan_out = FanOut([phoenix], delay=0.0, retry=Retry(first=0.01))
        fan_out.put(scored_run())
        start = time.monotonic()
        done = await fan_out.shutdown(4.0)
        return done, fan_out.stats()["phoenix"], time.monotonic() - start

    done, stats, took = anyio.run(deliver)
    assert done
    assert stats == DestinationStats(exported=1)
    assert took >= 1.0
    first, second, third = (body for _, _, body in server.requests)
    assert first == second == third


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"url": "localhost:6006"}, r"^url: 'localhost:6006' is not a URL"),
        ({"url": "ftp://x"}, r"^url: "),
        ({"timeout": 0}, r"^timeout: must be greater than zero"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        PhoenixDestination(**options)


def test_a_missing_httpx_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install .*\[http\]"):
        PhoenixDestination()


def test_a_later_revision_overwrites_and_another_version_does_not(server: Server) -> None:
    scored = scored_run(outcomes={"tone": Score(value=0.5)})
    (evaluation,) = scored.evaluations
    later = replace(scored, evaluations=(replace(evaluation, revision=2),))
    other = replace(scored, evaluations=(replace(evaluation, evaluation_id="b", scorer_version="2b"),))
    for each in (scored, later, other):
        send(PhoenixDestination(url=server.url), each)
    assert [a["identifier"] for a in server.annotations] == ["tone@1f3a", "tone@1f3a", "tone@2b"]
