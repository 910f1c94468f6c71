"""What every destination does when its server misbehaves, on a real server on loopback.

Each outcome is counted under its name, nothing else is held up, and no key stands in any text.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from uuid import UUID

import anyio
import pytest

from otel_evals._internal.deliver.fanout import FanOut
from otel_evals.destinations import DestinationStats
from otel_evals.model import Direction, Outcome, Score, ScoredRun
from otel_evals_exporters.opik import opik_id
from tests.support.destinations import BY_NAME, KEY, accept, destination
from tests.support.recording_server import RecordedRequest, RecordingServer, Reply, recording_server
from tests.support.replacing import replace
from tests.support.scored import scored_run
from tests.support.servers import free_ports

QUICK = {"attempts": 3, "first": 0.01, "longest": 0.02, "absent": 0.3}
TONE: dict[str, Outcome] = {"tone": Score(value=0.5, label="dry", explanation="because")}
WAITS = ("arize", "langsmith", "mlflow")
"""Those that take 404 for a trace that is not there yet."""

pytestmark = pytest.mark.parametrize("name", sorted(BY_NAME))
Behaviour = Callable[[RecordedRequest], Reply]


@pytest.fixture
def server(caplog: pytest.LogCaptureFixture) -> Iterator[RecordingServer]:
    """The server; whatever it does, no key stands in the log."""
    with caplog.at_level(logging.DEBUG), recording_server() as server:
        yield server
    assert KEY not in caplog.text


def deliver(
    name: str,
    server: RecordingServer,
    reply: Behaviour,
    *runs: ScoredRun,
    timeout: float = 5.0,
    attempt: float = 30.0,
) -> DestinationStats:
    server.reply = reply

    async def send() -> DestinationStats:
        target = destination(name, server.url, http={"timeout": timeout})
        fan_out = FanOut([target], delay=0.0, timeout=attempt, **QUICK)
        for run in runs or (scored_run(0, TONE),):
            fan_out.put(run)
        await fan_out.shutdown(40.0)
        return fan_out.stats()[name]

    return anyio.run(send)


def own_span(scored: ScoredRun, number: int) -> ScoredRun:
    """The same on a span of its own."""
    span_id = f"{0xABC000 + number:016x}"
    evaluations = tuple(replace(each, span_id=span_id) for each in scored.evaluations)
    return ScoredRun(run=replace(scored.run, root_span_id=span_id), evaluations=evaluations)


def failed(reason: str, runs: int = 1, evaluations: int = 1) -> DestinationStats:
    return DestinationStats(failed=runs, losses={reason: runs}, lost_evaluations={reason: evaluations})


def after(times: int, bad: Callable[[], Reply]) -> Behaviour:
    """Answers badly so many times, then well."""
    left = [times]

    def reply(request: RecordedRequest) -> Reply:
        if left[0] > 0:
            left[0] -= 1
            return bad()
        return accept(request)

    return reply


def echo(status: int) -> Behaviour:
    """Refuses, and repeats every header of the request, the key too."""
    return lambda request: Reply(status, str(request.headers).encode())


def test_what_a_slow_server_took_in_time_is_delivered_and_the_rest_sent_again(
    name: str, server: RecordingServer
) -> None:
    runs = [scored_run(n, TONE) for n in range(24)]
    stats = deliver(name, server, lambda r: replace(accept(r), delay=0.2), *runs, attempt=1.1)
    assert stats == DestinationStats(exported=24)
    assert any(KEY in value for request in server.requests for value in request.headers.values()) or (
        name in ("langfuse", "weave")  # within base64
    )


def test_without_content_nothing_quotes_the_conversation(name: str, server: RecordingServer) -> None:
    server.reply = accept

    async def send() -> None:
        target = destination(name, server.url, content=False)
        await target.export([scored_run()])
        await target.shutdown()

    anyio.run(send)
    raw = b"".join(request.raw for request in server.requests)
    assert b"hallucination" in raw
    assert not [words for words in (b"12.50", b"no answer in") if words in raw]


def test_a_wrong_key_is_told_once_and_not_tried_again(
    name: str, server: RecordingServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        assert deliver(name, server, echo(401)) == failed("unauthorized")
    assert len(server.requests) == 1
    assert "answered 401" in caplog.text
    authorization = [v for r in server.requests for k, v in r.headers.items() if k == "authorization"]
    for secret in (KEY, *(v.partition(" ")[2] or v for v in authorization)):
        assert secret not in caplog.text


def test_a_wrong_project_is_named(
    name: str, server: RecordingServer, caplog: pytest.LogCaptureFixture
) -> None:
    """LangSmith finds none of the name, the others refuse what is sent."""
    told = Reply(400, b'{"message": "there is no project p1"}')
    empty = Reply(body=b"[]")
    stats = deliver(name, server, lambda r: empty if r.path == "/api/v1/sessions" else told)
    assert stats == failed("trace_not_found" if name == "langsmith" else "refused")
    assert "there is no project" in caplog.text


def test_a_region_that_is_not_there_is_given_up(name: str, server: RecordingServer) -> None:
    (closed,) = free_ports(1)
    server.url = f"http://127.0.0.1:{closed}"
    assert deliver(name, server, accept) == failed("unavailable")


def test_404_for_ever_ends_under_its_name(name: str, server: RecordingServer) -> None:
    reason = "trace_not_found" if name in (*WAITS, "opik") else "not_found"
    assert deliver(name, server, lambda _: Reply(404)) == failed(reason)


@pytest.mark.parametrize(("status", "reason"), [(409, "conflict"), (413, "too_large"), (422, "refused")])
def test_a_refusal_is_final(name: str, status: int, reason: str, server: RecordingServer) -> None:
    assert deliver(name, server, echo(status)) == failed(reason)


@pytest.mark.parametrize("status", [400, 413])
def test_one_refused_score_spares_the_others_of_its_batch(
    name: str, status: int, server: RecordingServer
) -> None:
    poison: dict[str, Outcome] = {"poison": Score(value=0.5), **TONE}
    runs = [scored_run(n, poison if n == 11 else TONE) for n in range(20)]

    def reply(request: RecordedRequest) -> Reply:
        return Reply(status, b"no") if b'"poison' in request.raw else accept(request)

    stats = deliver(name, server, reply, *runs)
    reason = "too_large" if status == 413 else "refused"
    assert stats == replace(failed(reason), exported=19)


def test_a_score_that_an_otlp_address_rejects_in_a_success_is_not_delivered(
    name: str, server: RecordingServer
) -> None:
    poison: dict[str, Outcome] = {"poison": Score(value=0.5), **TONE}
    runs = [scored_run(n, poison if n == 11 else TONE) for n in range(20)]

    def reply(request: RecordedRequest) -> Reply:
        count = b"1" if b'"poison' in request.raw else b"0"
        field = b"rejectedSpans" if request.path.endswith("traces") else b"rejectedLogRecords"
        partial = b'{"partialSuccess": {"%s": "%s", "errorMessage": "no"}}' % (field, count)
        return Reply(body=partial) if "otel" in request.path else accept(request)

    stats = deliver(name, server, reply, *runs)
    is_otlp = name in ("braintrust", "posthog")
    assert stats == (replace(failed("refused"), exported=19) if is_otlp else DestinationStats(exported=20))


@pytest.mark.parametrize("status", [404, 409])
def test_one_span_that_is_not_there_holds_up_no_other(
    name: str, status: int, server: RecordingServer
) -> None:
    runs = [own_span(scored_run(n, TONE), n) for n in range(20)]
    lost = runs[11].evaluations[0]
    ids = (lost.span_id, str(int(lost.span_id, 16)), lost.trace_id, str(UUID(int=int(lost.span_id, 16))))
    unknown = [f'"{each}"'.encode() for each in ids] + [f"tr-{lost.trace_id}".encode()]

    def reply(request: RecordedRequest) -> Reply:
        asked = request.raw + request.path.encode()
        opik = status == 404 and request.path.endswith(str(opik_id(lost.trace_id, 1_700_000_000_000)))
        there = not opik and not any(each in asked for each in unknown)
        return accept(request) if there else Reply(status, b"unknown span")

    stats = deliver(name, server, reply, *runs)
    reason = "conflict" if status == 409 else "trace_not_found" if name in (*WAITS, "opik") else "not_found"
    if name == "opik" and status == 409:  # its scores have ids of their own
        assert stats.exported == 20
        return
    assert stats == replace(failed(reason), exported=19)


def test_one_score_that_cannot_be_written_down_spares_the_others(name: str, server: RecordingServer) -> None:
    """Whatever of it has no form in JSON: it is counted, and nothing beside it is lost."""
    loop: list[object] = []
    loop.append(loop)
    odd: list[object] = [Direction.LOWER, float("nan"), object(), b"\xff", {1, 2}, loop, 1j, ()]
    runs = [scored_run(n, TONE) for n in range(40)]
    for at, label in enumerate(odd):
        score = Score(value=0.5, label=label, explanation=label)  # type: ignore[arg-type]
        runs[3 * at] = scored_run(3 * at, {"tone": score})
    stats = deliver(name, server, accept, *runs)
    assert stats.exported >= 40 - len(odd)
    assert stats.exported + stats.failed == 40
    assert sum(stats.losses.values()) == stats.failed


BUSY = {
    "429": Reply(429, headers={"Retry-After": "0"}),
    "500": Reply(500, b"oops"),
    "a server that dies in the middle": Reply(dies=True),
}


@pytest.mark.parametrize("how", BUSY)
def test_what_may_pass_is_tried_again(name: str, how: str, server: RecordingServer) -> None:
    assert deliver(name, server, after(2, lambda: BUSY[how])).exported == 1


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(429), "rate_limited"),
        (Reply(503), "unavailable"),
        (
            Reply(200, b"<html>Log in</html>", {"Content-Type": "text/html; charset=utf-8"}),
            "unexpected_answer",
        ),
        (Reply(body=b'"' + b"x" * 6_000_000 + b'"'), "unexpected_answer"),
    ],
    ids=["429 for ever", "503 for ever", "HTML", "a huge answer"],
)
def test_what_does_not_pass_is_given_up(
    name: str, reply: Reply, reason: str, server: RecordingServer
) -> None:
    assert deliver(name, server, lambda _: reply, timeout=20.0) == failed(reason)


def test_a_redirect_is_not_followed(name: str, server: RecordingServer) -> None:
    with recording_server() as elsewhere:
        moved = Reply(307, headers={"Location": elsewhere.url})
        assert deliver(name, server, lambda _: moved) == failed("redirected")
        assert elsewhere.requests == [], "the key went to another server"


def test_a_slow_answer_is_given_up_and_tried_again(name: str, server: RecordingServer) -> None:
    stats = deliver(name, server, after(1, lambda: Reply(delay=30.0)), timeout=0.5)
    assert stats.exported == 1


def test_an_endless_answer_is_given_up(name: str, server: RecordingServer) -> None:
    stats = deliver(name, server, lambda _: Reply(endless=True), timeout=0.05)
    assert stats == failed("timeout")


def test_what_is_no_number_is_not_sent(name: str, server: RecordingServer) -> None:
    odd: dict[str, Outcome] = {"nan": Score(value=float("nan")), "inf": Score(value=float("inf")), **TONE}
    stats = deliver(name, server, accept, scored_run(0, odd), scored_run(1, TONE))
    assert stats == replace(failed("not_finite", evaluations=2), exported=1)
    assert not any(b'"nan"' in request.raw for request in server.requests)


def test_a_score_out_of_a_backend_s_range_is_not_sent(name: str, server: RecordingServer) -> None:
    beyond: dict[str, Outcome] = {"high": Score(value=1.5), "low": Score(value=-0.5), **TONE}
    stats = deliver(name, server, accept, scored_run(0, beyond), scored_run(1, TONE))
    if name == "braintrust":  # from 0 to 1; the others take any number
        assert stats == replace(failed("out_of_range", evaluations=2), exported=1)
    else:
        assert stats.exported == 2


def test_names_that_a_backend_refuses_are_written_in_its_alphabet(name: str, server: RecordingServer) -> None:
    scorers = ("note", "9 lives", "a.b/c", "_x", "x" * 300, "größe")
    named: dict[str, Outcome] = {scorer: Score(value=0.5, label="dry") for scorer in scorers}
    assert deliver(name, server, accept, scored_run(0, named)).exported == 1
    sent = b"".join(request.raw for request in server.requests).decode()
    if name == "datadog":
        labels = set(re.findall(r'"label": ?"([^"]*)"', sent))
        assert len(labels) == 2 * len(scorers), "no two became one"
        assert all(re.fullmatch(r"[A-Za-z]\w{,199}", label, re.ASCII) for label in labels)
        return
    written = ["otel_evals.note" if (name, each) == ("phoenix", "note") else each for each in scorers]
    assert [each for each in written if f'"{each}"' not in sent] == []


def test_an_explanation_over_a_backend_s_limit_is_cut_and_says_so(name: str, server: RecordingServer) -> None:
    long: dict[str, Outcome] = {"tone": Score(value=0.5, explanation="because " * 100_000)}
    assert deliver(name, server, accept, scored_run(0, long)).exported == 1
    sent = b"".join(request.raw for request in server.requests).decode()
    if name in ("phoenix", "mlflow"):  # these have no limit
        assert sent.count("because") >= 100_000
    else:
        assert "cut]" in sent
        assert len(sent) < 25_000


def test_scores_of_traces_that_were_not_sampled_are_not_sent(name: str, server: RecordingServer) -> None:
    scored = scored_run(0, TONE)
    unsampled = replace(scored, run=replace(scored.run, trace_flags=0))
    assert deliver(name, server, accept, unsampled) == failed("trace_not_sampled")
    assert server.requests == []


def test_hostile_text_arrives_as_valid_json(name: str, server: RecordingServer) -> None:
    hostile: dict[str, Outcome] = {
        "9 naïve/../\x00\n'\"\ud800": Score(
            value=0.5, label="a\x00\ud800", explanation="\ud83d" + "x" * 1_000_000
        ),
        "x" * 5000: Score(value=-1e300 if name != "braintrust" else 0.0),
    }
    assert deliver(name, server, accept, scored_run(0, hostile)).exported == 1
    assert all(request.body is not None for request in server.requests if request.method != "GET")
    assert not any(b"\\u0000" in request.raw for request in server.requests if b"explanation" in request.raw)


def test_sent_twice_is_the_same_twice(name: str, server: RecordingServer) -> None:
    """The same ids and timestamps, whenever it is sent: what overwrites itself does."""
    run = scored_run(0, TONE)
    assert deliver(name, server, accept, run).exported == 1
    half = len(server.requests)
    later = replace(run, evaluations=tuple(replace(e, time=e.time + 10**12) for e in run.evaluations))
    assert deliver(name, server, accept, later).exported == 1
    first, second = (
        [(r.method, r.path, r.body) for r in part]
        for part in (server.requests[:half], server.requests[half:])
    )
    assert first == second
