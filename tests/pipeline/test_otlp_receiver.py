"""The receiver of the pipeline tests reads what OpenTelemetry's own exporters send."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode, use_span

from tests.support.otlp_receiver import OtlpReceiver

RESOURCE = Resource({"service.name": "shop"})


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


def test_spans_and_the_logs_in_them_are_read_whole(receiver: OtlpReceiver) -> None:
    tracing, logging = TracerProvider(resource=RESOURCE), LoggerProvider(resource=RESOURCE)
    exporter = OTLPSpanExporter(f"{receiver.endpoint}/v1/traces", compression=Compression.Gzip)
    tracing.add_span_processor(SimpleSpanProcessor(exporter))
    logging.add_log_record_processor(
        SimpleLogRecordProcessor(OTLPLogExporter(f"{receiver.endpoint}/v1/logs"))
    )
    tracer = tracing.get_tracer("agents", "1.2")
    with tracer.start_as_current_span("outer") as outer:
        inner = tracer.start_span("chat", kind=SpanKind.CLIENT, attributes={"a": 1, "b": [0.5], "c": "x"})
        inner.add_event("first", {"token": True})
        inner.set_status(StatusCode.ERROR, "boom")
        with use_span(inner):
            logging.get_logger("judge").emit(
                event_name="gen_ai.evaluation.result", body={"why": [1, None]}, attributes={"score": 0.5}
            )
        inner.end()
    tracing.shutdown()
    logging.shutdown()

    chat, parent = receiver.wait_for_spans(2)
    assert (chat.name, chat.kind, chat.status, chat.status_message) == ("chat", "CLIENT", "ERROR", "boom")
    assert chat.attributes == {"a": 1, "b": [0.5], "c": "x"}
    assert (chat.parent_span_id, parent.parent_span_id) == (parent.span_id, None)
    assert chat.trace_id == f"{outer.get_span_context().trace_id:032x}"
    assert (chat.events[0].name, chat.events[0].attributes) == ("first", {"token": True})
    assert (chat.scope_name, chat.scope_version, chat.resource["service.name"]) == ("agents", "1.2", "shop")
    assert (chat.trace_flags, chat.parent_is_remote) == (1, False)

    (log,) = receiver.wait_for_logs(1)
    flags = outer.get_span_context().trace_flags
    assert (log.trace_id, log.span_id, log.trace_flags) == (chat.trace_id, chat.span_id, flags)
    assert (log.event_name, log.body, log.attributes) == (
        "gen_ai.evaluation.result",
        {"why": [1, None]},
        {"score": 0.5},
    )


def test_counters_gauges_and_histograms_are_read(receiver: OtlpReceiver) -> None:
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(f"{receiver.endpoint}/v1/metrics"))
    provider = MeterProvider([reader], resource=RESOURCE)
    meter = provider.get_meter("otel_evals")
    meter.create_counter("runs").add(3, {"outcome": "scored"})
    meter.create_gauge("held").set(2.5)
    scores = meter.create_histogram("score", unit="1")
    scores.record(0.25)
    scores.record(0.5)
    provider.shutdown()

    (runs,) = receiver.wait_for_metric("runs")
    assert (runs.kind, runs.value, runs.attributes) == ("sum", 3.0, {"outcome": "scored"})
    (held,) = receiver.wait_for_metric("held")
    assert (held.kind, held.value) == ("gauge", 2.5)
    (score,) = receiver.wait_for_metric("score")
    assert (score.kind, score.value, score.count, score.unit) == ("histogram", 0.75, 2, "1")
    assert score.scope_name == "otel_evals"


@pytest.mark.parametrize(
    ("path", "body", "status"), [("/v1/traces", b"\xff" * 9, 400), ("/v1/nothing", b"", 404)]
)
def test_what_is_not_otlp_is_refused(receiver: OtlpReceiver, path: str, body: bytes, status: int) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(receiver.endpoint + path, body)
    assert caught.value.code == status
    caught.value.close()
    assert receiver.requests == [(path, status)]


def test_it_can_refuse_everything(receiver: OtlpReceiver) -> None:
    receiver.fail_with = 503
    with pytest.raises(urllib.error.HTTPError, match="503") as caught:
        urllib.request.urlopen(f"{receiver.endpoint}/v1/traces", b"")
    caught.value.close()


def test_waiting_in_vain_says_what_is_there(receiver: OtlpReceiver) -> None:
    with pytest.raises(TimeoutError, match=r"after 0\.01 s: 0 spans"):
        receiver.wait_for_spans(1, timeout=0.01)
