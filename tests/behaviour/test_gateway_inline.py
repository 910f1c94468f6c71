"""The gateway inline: everything goes on to the next endpoint, judged spans with their scores."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import ReadableSpan

from otel_evals import sampling
from tests.support.agents import body, recorded
from tests.support.gateway_process import GatewayProcess, post
from tests.support.otlp_receiver import OtlpReceiver

SCORE = "otel_evals.score.answered"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GatewayProcess, OtlpReceiver]]:
    """A gateway, and the next endpoint behind it; half of the traces are scored."""
    with OtlpReceiver() as backend:
        section = {"mode": "inline", "forward": backend.endpoint, "quiet": 0.1}
        rules = [{"scorer": "answered", "sample": "ratio(0.5)"}]
        with GatewayProcess(tmp_path_factory.mktemp("inline"), rules, section) as gateway:
            yield gateway, backend
            assert gateway.stop() == 0


@pytest.fixture
def gateway(running: tuple[GatewayProcess, OtlpReceiver]) -> GatewayProcess:
    return running[0]


@pytest.fixture
def backend(running: tuple[GatewayProcess, OtlpReceiver], monkeypatch: pytest.MonkeyPatch) -> OtlpReceiver:
    """The next endpoint; what a test sets on it is undone."""
    monkeypatch.setattr(running[1], "fail_with", None)
    monkeypatch.setattr(running[1], "receive", running[1].receive)
    return running[1]


def runs(count: int, sampled: bool) -> list[ReadableSpan]:
    """The spans of so many runs that the rule samples, or does not."""
    found: list[ReadableSpan] = []
    while len(found) < 3 * count:
        spans = recorded()
        if sampling.is_sampled(0.5, spans[0].context.trace_id) is sampled:
            found += spans
    return found


def ids(spans: list[ReadableSpan]) -> set[str]:
    return {f"{span.context.span_id:016x}" for span in spans}


def test_everything_goes_on_and_the_judged_span_has_its_score(
    gateway: GatewayProcess, backend: OtlpReceiver
) -> None:
    spans = runs(4, True)
    assert post(f"{gateway.endpoint}/v1/traces", body(spans))[0] == 200
    backend.wait(lambda r: ids(spans) <= {s.span_id for s in r.spans})
    arrived = [span for span in backend.spans if span.span_id in ids(spans)]
    assert len(arrived) == 12
    sent = {f"{s.context.span_id:016x}": s for s in spans}
    for span in arrived:
        original = sent[span.span_id]
        assert (span.name, span.start_time) == (original.name, original.start_time)
        assert (SCORE in span.attributes) is span.name.startswith("invoke_agent")
        kept = {k: v for k, v in span.attributes.items() if not k.startswith("otel_evals.score")}
        assert kept == dict(original.attributes or {})


def test_what_no_rule_samples_leaves_as_the_bytes_that_came(
    gateway: GatewayProcess, backend: OtlpReceiver
) -> None:
    seen: list[tuple[str, bytes]] = []

    def keep(path: str, data: bytes) -> tuple[int, bytes]:
        seen.append((path, data))
        return 200, b""

    backend.receive = keep  # type: ignore[method-assign]
    request = body(runs(3, False)) + b"\xd2\x3e\x03new"
    url = gateway.endpoint
    assert post(f"{url}/v1/traces", gzip.compress(request), Content_Encoding="gzip")[0] == 200
    assert post(f"{url}/v1/logs", b"")[0] == 200
    assert post(f"{url}/v1/metrics", b"")[0] == 200
    assert seen == [("/v1/traces", request), ("/v1/logs", b""), ("/v1/metrics", b"")]


@pytest.mark.parametrize("status", [429, 503, 400])
def test_what_the_next_endpoint_refuses_the_sender_is_told(
    gateway: GatewayProcess, backend: OtlpReceiver, status: int
) -> None:
    """Then it sends again, and everything arrives once, with its score."""
    spans = runs(2, True)
    backend.fail_with = status
    found, _, headers = post(f"{gateway.endpoint}/v1/traces", body(spans))
    assert (found, "Retry-After" in headers) == (status, status != 400)
    backend.fail_with = None
    assert post(f"{gateway.endpoint}/v1/traces", body(spans))[0] == 200
    backend.wait(lambda r: ids(spans) <= {s.span_id for s in r.spans})
    arrived = [span for span in backend.spans if span.span_id in ids(spans)]
    assert len(arrived) == 6
    assert sum(SCORE in span.attributes for span in arrived) == 2


def test_a_partial_success_of_the_next_endpoint_is_passed_on(
    gateway: GatewayProcess, backend: OtlpReceiver
) -> None:
    partial = ExportTraceServiceResponse()
    partial.partial_success.rejected_spans = 2
    partial.partial_success.error_message = "too old"
    backend.receive = lambda path, data: (200, partial.SerializeToString())  # type: ignore[method-assign]
    status, answer, _ = post(f"{gateway.endpoint}/v1/traces", body(runs(1, False)))
    assert status == 200
    assert ExportTraceServiceResponse.FromString(answer) == partial
