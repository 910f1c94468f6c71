"""The gateway inline: everything goes on to the next endpoint, judged spans with their scores."""

from __future__ import annotations

import contextlib
import gzip
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from otel_evals import Rule
from otel_evals._internal.engine.journal import segments
from otel_evals.model import Run
from otel_evals.scorers import answered, scorer
from tests.pipeline.test_gateway import body, no_space, recorded
from tests.support.gateways import GatewayThread, get
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.recording_server import Reply, recording_server
from tests.support.waits import SECONDS, eventually

SCORE = "otel_evals.score.answered"


over = threading.Event()


@scorer(version="1")
def never(run: Run) -> float:
    over.wait(30)
    return 1.0


@pytest.fixture
def backend() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


def inline(backend: OtlpReceiver, *rules: Any, journal: Path | None = None, **options: Any) -> GatewayThread:
    section = {"mode": "inline", "forward": backend.endpoint, "quiet": 0.1, **options.pop("gateway", {})}
    if journal is not None:
        options["journal"] = journal / "journal"
    return GatewayThread(*rules or (Rule(answered()),), gateway=section, **options)


def left(gateway: GatewayThread) -> None:
    """Send a request that may get no answer."""
    with contextlib.suppress(OSError):
        gateway.post("/v1/traces", body(recorded()))


def test_an_endpoint_that_is_away_is_one_log_line_and_shows_in_readyz(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The line names the endpoint and what senders get; the gateway is ready once the endpoint is back."""
    with OtlpReceiver() as gone:
        port = int(gone.endpoint.rpartition(":")[2])
    with inline(gone) as gateway:
        ready = lambda: get(f"{gateway.endpoint}/readyz")  # noqa: E731
        assert ready()[0] == 200
        for _ in range(2):
            status, _, headers = gateway.post("/v1/traces", body(recorded()))
            assert (status, headers["Retry-After"]) == (503, "1")
        status, page = ready()
        assert (status, gone.endpoint in page["problem"], "senders get" in page["problem"]) == (
            503,
            True,
            True,
        )
        assert [gone.endpoint in line for line in caplog.messages if "forward:" in line] == [True]
        with OtlpReceiver(port):
            assert eventually(ready, lambda found: found[0] == 200)


def test_a_span_is_held_no_longer_than_its_time_even_if_its_scorer_is_slow(
    backend: OtlpReceiver, tmp_path: Path
) -> None:
    over.clear()
    with inline(backend, Rule(never), journal=tmp_path, hold=0.3) as gateway:
        began = time.monotonic()
        assert gateway.post("/v1/traces", body(recorded()))[0] == 200
        arrived = backend.wait_for_spans(3)
        assert time.monotonic() - began >= 0.25
        assert not any("score" in key for span in arrived for key in span.attributes)
        assert len(gateway.service._held_spans) == 0
        over.set()


def test_without_a_journal_spans_whose_parent_comes_later_do_not_wait_for_it(backend: OtlpReceiver) -> None:
    """Exporters send one request after the other: a held child would hold its parent back."""
    spans = recorded()
    with inline(backend, hold=600.0, gateway={"quiet": 0.5}) as gateway:
        for span in spans:
            assert gateway.post("/v1/traces", body([span]))[0] == 200
        (evaluation,) = gateway.evaluations(1)
        assert evaluation.span_id == f"{spans[-1].context.span_id:016x}"
    arrived = backend.wait_for_spans(3)
    assert [SCORE in span.attributes for span in arrived] == [False, False, True]


def test_with_a_journal_the_sender_does_not_wait_for_scores(backend: OtlpReceiver, tmp_path: Path) -> None:
    with inline(backend, journal=tmp_path, hold=60.0, gateway={"quiet": 50.0, "idle": 60.0}) as gateway:
        assert gateway.post("/v1/traces", body(recorded()))[0] == 200
        assert len(backend.wait_for_spans(2)) == 2
        assert len(gateway.service._held_spans) == 1
    assert len(backend.spans) == 3, "what was held leaves when the gateway ends, judged"
    assert SCORE in backend.spans[-1].attributes


def test_more_spans_than_may_be_held_pass_without_scores(backend: OtlpReceiver, tmp_path: Path) -> None:
    options = {"hold": 60.0, "limits": {"max_held_spans": 3}, "gateway": {"quiet": 50.0, "idle": 60.0}}
    with inline(backend, journal=tmp_path, **options) as gateway:
        for _ in range(5):
            assert gateway.post("/v1/traces", body(recorded()))[0] == 200
        assert len(backend.wait_for_spans(12)) == 12
    assert len(backend.spans) == 15


def test_a_next_endpoint_that_goes_away_while_spans_are_held_gets_them_when_it_is_back(
    backend: OtlpReceiver, tmp_path: Path
) -> None:
    with inline(backend, journal=tmp_path, gateway={"quiet": 0.5}) as gateway:
        assert gateway.post("/v1/traces", body(recorded()))[0] == 200
        backend.fail_with = 503
        backend.wait(lambda r: r.requests and r.requests[-1][1] == 503)
        backend.fail_with = None
        (scored,) = [s for s in backend.wait_for_spans(3) if SCORE in s.attributes]
    assert scored.attributes[SCORE] == 1.0


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (301, {"Location": "/elsewhere"}),
        (307, {"Location": "/elsewhere"}),
        (200, {"Content-Type": "text/html"}),
    ],
)
def test_an_address_that_takes_no_otlp_gets_no_span(status: int, headers: dict[str, str]) -> None:
    """A redirect would lose the body, and could carry a key to another host."""
    section = {"mode": "inline", "quiet": 0.1, "forward_headers": {"api-key": "secret"}}
    with recording_server() as server:
        server.reply = lambda _: Reply(status, headers=headers)
        with GatewayThread(Rule(answered()), gateway={**section, "forward": server.url}) as gateway:
            assert gateway.post("/v1/traces", body(recorded()))[0] == 503
            assert f"answers {status}" in get(f"{gateway.endpoint}/readyz")[1]["problem"]
            assert {request.path for request in server.requests} == {"/v1/traces"}
            items = get(f"{gateway.endpoint}/stats")[1]["items"]["traces"]
    assert (items["refused"], items.get("forwarded", 0), items.get("to_judge", 0)) == (3, 0, 0)


def test_held_spans_that_a_partial_success_rejects_are_counted_and_logged(
    backend: OtlpReceiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    partial = ExportTraceServiceResponse(partial_success={"rejected_spans": 1, "error_message": "a quote"})
    backend.receive = lambda *_: (200, partial.SerializeToString())  # type: ignore[method-assign]
    with inline(backend, journal=tmp_path) as gateway:
        assert gateway.post("/v1/traces", body(recorded()))[0] == 200
        eventually(lambda: "lost" in gateway.service.traffic.snapshot()["items"]["traces"])
        items = gateway.service.traffic.snapshot()["items"]["traces"]
    assert [items[end] for end in ("received", "forwarded", "refused", "lost")] == [3, 1, 1, 1]
    assert "refused 1 held spans" in caplog.text
    assert "a quote" not in caplog.text


def test_of_held_spans_only_those_that_the_next_endpoint_refuses_are_lost(
    backend: OtlpReceiver, tmp_path: Path
) -> None:
    """They leave together: after an outage, they may be too large for one request."""
    take = backend.receive
    backend.receive = lambda *request: (413, b"") if len(request[1]) > 5_000 else take(*request)  # type: ignore[method-assign]
    requests = [body(recorded(question="x" * size)[2:]) for size in (500, 2_500, 2_500, 2_500, 9_000)]
    with inline(backend, journal=tmp_path, gateway={"quiet": 0.5}) as gateway:
        assert [gateway.post("/v1/traces", each)[0] for each in requests] == [200] * 5
        assert len(backend.wait_for_spans(4)) == 4
        eventually(lambda: not gateway.service._inline._outbox.unsent)
        items = gateway.service.traffic.snapshot()["items"]["traces"]
    assert (items["received"], items["forwarded"], items["lost"]) == (5, 4, 1)


def test_what_a_full_journal_did_not_keep_is_no_work_of_the_next_process(
    backend: OtlpReceiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments.Segment, "write", no_space)
    with inline(backend, journal=tmp_path, gateway={"idle": 60.0}) as gateway:
        assert gateway.post("/v1/traces", body(recorded()))[0] == 200
        backend.wait_for_spans(3)
        before = len(backend.requests)
        assert gateway.post("/v1/traces", body(recorded()))[0] == 200
        assert len(backend.requests) == before + 1, "a failure in the middle would repeat the first part"
        assert gateway.post("/v1/traces", body(recorded()[:1]))[0] == 200
        gateway.evaluations(2)
    stats = gateway.service.scoring.engine.stats()
    assert (stats.not_kept, stats.ignored) == (2, {"root_not_ended_at_shutdown": 1})
    assert len(backend.spans) == 7


def test_an_endpoint_that_does_not_answer_delays_no_shutdown() -> None:
    over = threading.Event()
    with OtlpReceiver() as backend:
        backend.receive = lambda *_: (200, b"" * over.wait(SECONDS))  # type: ignore[method-assign]
        with inline(backend, shutdown_timeout=1.0) as gateway:
            sender = threading.Thread(target=lambda: left(gateway))
            sender.start()
            eventually(lambda: gateway.service._limits.in_progress)
            began = time.monotonic()
        assert time.monotonic() - began < 4.0
        over.set()
        sender.join()


def test_spans_that_cannot_be_sent_on_are_bounded_as_held_ones_are(
    backend: OtlpReceiver, tmp_path: Path
) -> None:
    """Otherwise requests with nothing but held spans would be taken until the memory is full."""
    options = {"hold": 0.2, "limits": {"max_held_spans": 3}}
    backend.fail_with = 503
    with inline(backend, journal=tmp_path, **options) as gateway:
        roots = [recorded()[2:] for _ in range(6)]
        answers = []
        for root in roots:
            answers.append(gateway.post("/v1/traces", body(root))[0])
            time.sleep(0.3)  # it is held no longer
        assert answers == [200, 200, 200, 503, 503, 503]
        backend.fail_with = None
        backend.wait_for_spans(3)


def test_senders_at_once_lose_nothing(backend: OtlpReceiver, tmp_path: Path) -> None:
    requests = [body(recorded()) for _ in range(40)]
    with inline(backend, journal=tmp_path) as gateway:
        threads = [
            threading.Thread(target=lambda part=part: [gateway.post("/v1/traces", r) for r in part])
            for part in (requests[i::4] for i in range(4))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        arrived = backend.wait_for_spans(120)
    assert len({span.span_id for span in arrived}) == len(backend.spans) == 120
    assert sum(SCORE in span.attributes for span in arrived) == 40


@pytest.mark.parametrize("options", [{}, {"span_attributes": False}], ids=["held", "not held"])
def test_names_of_ours_that_senders_wrote_do_not_arrive(
    backend: OtlpReceiver, options: dict[str, Any]
) -> None:
    """A client could make up scores, verdicts and explanations."""
    message = encode_spans(recorded())
    for span in message.resource_spans[0].scope_spans[0].spans:
        for name in (SCORE, f"{SCORE}.verdict", f"{SCORE}.explanation", "otel_evals.score.other"):
            span.attributes.add(key=name).value.string_value = "forged"
    with inline(backend, **options) as gateway:
        packed = gzip.compress(message.SerializeToString())
        assert gateway.post("/v1/traces", packed, Content_Encoding="gzip")[0] == 200
        arrived = backend.wait_for_spans(3)
    ours = {
        name: value for span in arrived for name, value in span.attributes.items() if "otel_evals" in name
    }
    assert "forged" not in ours.values()
    assert ours.get(SCORE) == (None if options else 1.0)
