"""The table of trust, cell by cell: hostile values arrive by each channel, and each decision is watched.

`cannot` and `only if signed` mean that an unsigned value changes nothing; `yes` that it does, within a bound.
"""

from __future__ import annotations

import io
import json
import logging
import math
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
from opentelemetry import baggage, trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import otel_evals
from otel_evals import Rule, Run, Score, sampling, scorer, semconv
from otel_evals._internal.config.loader import build_config
from otel_evals._internal.deliver.console import ConsoleDestination
from otel_evals._internal.read.conversation import conversation_key
from otel_evals._internal.trust.keys import proof_of, signature
from otel_evals.model import Evaluation, StepRecord
from otel_evals.sampling import Chance
from otel_evals.testing import InMemoryDestination
from tests.support.gateways import GatewayThread
from tests.support.kafka_broker import kafka_broker
from tests.support.scored_files import score_files
from tests.support.traffic import agent_run
from tests.support.trust_table import Channel, Decision, answer, table
from tests.support.waits import SECONDS, eventually

CHANNELS: tuple[Channel, ...] = get_args(Channel)
DECISIONS: tuple[Decision, ...] = get_args(Decision)
ROOT = Path(__file__).parents[2]
COUNT = 40
EVIL = "EVIL\x1b[31m\u202e"
PROPAGATOR = CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])
GOLDEN = 0x9E3779B97F4A7C15F39CC0605CEDC835


class CopiesBaggage(SpanProcessor):
    """Copies baggage onto spans, as OpenTelemetry's BaggageSpanProcessor does."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Copy every key."""
        for key, value in baggage.get_all(parent_context).items():
            span.set_attribute(key, str(value))


@scorer(inline=True)
def good(run: Run) -> float:
    """Return the same for every run."""
    return 1.0


@scorer(inline=True)
def quoting(run: Run) -> float:
    """Fail with a text of the run."""
    raise ValueError(run.input)


def rules() -> list[Rule]:
    return [
        Rule(good),
        Rule(scorer(id="half", inline=True)(lambda run: 1.0), sample=0.5),
        Rule(scorer(id="vip", inline=True)(lambda run: 1.0), sample=sampling.attribute("vip")),
        Rule(quoting),
    ]


class Seen(logging.Handler):
    """What scoring did with hostile requests: evaluations, log lines and texts for people."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []
        self.kept = InMemoryDestination()
        self.printed = io.StringIO()
        self.span_scores: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.lines.append(self.format(record))

    @property
    def destinations(self) -> list[Any]:
        return [self.kept, ConsoleDestination(file=self.printed)]

    def __enter__(self) -> Seen:
        logging.getLogger("otel_evals").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("otel_evals").removeHandler(self)

    def of(self, name: str) -> list[Evaluation]:
        return [each for each in self.kept.evaluations if each.scorer_id == name]

    def effects(self, sent: int = COUNT) -> dict[Decision, bool]:
        """For each decision: whether hostile values changed it."""
        runs = [scored.run for scored in self.kept.runs]
        printed = self.printed.getvalue()
        assert "\x1b" not in printed
        assert "\u202e" not in printed
        probabilities = {each.sampled.probability for each in self.kept.evaluations}
        ids = [each.evaluation_id for each in self.kept.evaluations]
        conversations = [run.conversation_id for run in runs if run.conversation_id]
        names = [run.agent_name for run in runs] + [run.resource.get("service.name") for run in runs]
        costs = [getattr(each.outcome, "cost", None) for each in self.kept.evaluations]
        labels = [getattr(each.outcome, "label", None) for each in self.kept.evaluations]
        ours = ("unknown_service", "support", "app", None)
        return {
            "ignore": len(self.of("good")) < sent,
            "sample": bool(self.of("vip")) or not 0 < len(self.of("half")) < sent,  # by chance once in 10^11
            "weigh": not probabilities <= {0.5, 1.0},
            "join": bool(conversations) or len({run.trace_id for run in runs}) < len(runs),
            "name": any(name not in ours for name in names) or any(labels),
            "price": any(costs),
            "overwrite": len(set(ids)) < len(ids) or any(score != 1.0 for score in self.span_scores),
            "log": any("EVIL" in line or "signature" in line for line in self.lines),
            "render": "EVIL" in printed,
        }


def serve(
    requests: list[Mapping[str, str]],
    *,
    resource: Mapping[str, Any] | None = None,
    attributes: Mapping[str, Any] | None = None,
    **run: Any,
) -> Seen:
    """Serve requests with these headers in an application that scores, and return what was seen."""
    with Seen() as seen:
        exported = InMemorySpanExporter()
        provider = TracerProvider(resource=Resource(dict(resource or {"service.name": "app"})))
        config = build_config(rules(), seen.destinations, grace=0.0)
        provider.add_span_processor(CopiesBaggage())
        pipeline = otel_evals.Pipeline(config, tracer_provider=provider)
        provider.add_span_processor(pipeline.spans)
        provider.add_span_processor(SimpleSpanProcessor(pipeline.hold(exported)))
        server = provider.get_tracer("opentelemetry.instrumentation.asgi")
        for headers in requests:
            context = PROPAGATOR.extract(headers, Context())
            with server.start_as_current_span("POST", context, SpanKind.SERVER):
                agent_run(
                    provider.get_tracer("tests.app"),
                    during=lambda span: span.set_attributes(dict(attributes or {})),
                    **run,
                )
        assert pipeline.force_flush(100_000)
        seen.stats = pipeline.stats()  # type: ignore[attr-defined]
        assert pipeline.stats().check() == []
        provider.shutdown()
        scored = {each.span_id for each in seen.of("good")}
        for span in exported.get_finished_spans():
            if "otel_evals.score.other" in (span.attributes or {}):
                seen.span_scores.append(math.inf)
            if f"{span.context.span_id:016x}" in scored:
                seen.span_scores.append((span.attributes or {}).get("otel_evals.score.good"))
    return seen


def chosen_ids() -> Iterator[int]:
    """Trace ids that a caller would choose to be sampled by the trace id, or by a public hash of it."""
    rng = random.Random(1)
    while True:
        trace_id = rng.getrandbits(72) << 56 | 0xFF_FFFF_FFFF_FFFF
        if (trace_id * GOLDEN % 2**128) >> 127:
            yield trace_id


def traceparents(flag: str = "01", *, shared: bool = False) -> list[Mapping[str, str]]:
    ids = chosen_ids()
    first = next(ids)
    made = [(first if shared else next(ids), number) for number in range(1, COUNT + 1)]
    return [{"traceparent": f"00-{trace_id:032x}-{span_id:016x}-{flag}"} for trace_id, span_id in made]


MARKS = {"otel_evals.internal": "1", "otel_evals.internal.proof": "0" * 32}
HOSTILE: dict[str, Any] = {
    **MARKS,
    "otel_evals.score.good": 0.0,
    "otel_evals.score.good.evaluation_id": "x",
    "otel_evals.sampling.probability": 1e-9,
    "otel_evals.judge.cost": 99.0,
    "gen_ai.evaluation.name": EVIL,
    "gen_ai.conversation.id": "shared",
    "gen_ai.agent.name": EVIL,
    "vip": True,
}


def by_header() -> dict[Decision, bool]:
    headers = {f"x-{key.replace('_', '-')}": "1" for key in HOSTILE} | {"x-agent": EVIL, "x-trust": "1"}
    return serve([headers] * COUNT).effects()


def by_baggage() -> dict[Decision, bool]:
    value = ",".join(f"{key}={v}" for key, v in MARKS.items())
    forged = f"{value},otel_evals.score.good=0,otel_evals.score.other=1,otel_evals.judge.cost=99"
    return serve([{"baggage": forged}] * COUNT).effects()


def by_tracestate() -> dict[Decision, bool]:
    state = "otel_evals=1,ot=th:fffffffffffff;rv:ffffffffffffff,vendor=x"
    return serve([{**headers, "tracestate": state} for headers in traceparents()]).effects()


def by_traceparent() -> dict[Decision, bool]:
    found = [serve(requests).effects() for requests in (traceparents(), traceparents(shared=True))]
    found.append(serve(traceparents("00")).effects())
    assert [each["sample"] for each in found] == [False, True, True], "an id shared or dropped"
    assert found[2]["ignore"]
    together = {each: any(effects[each] for effects in found) for each in DECISIONS}
    return {**together, "sample": found[0]["sample"]}


def by_span_attribute() -> dict[Decision, bool]:
    return serve([{}] * COUNT, attributes=HOSTILE, agent=EVIL, question=EVIL).effects()


def by_resource_attribute() -> dict[Decision, bool]:
    found = serve([{}] * COUNT, resource={**HOSTILE, "service.name": EVIL})
    services = {conversation_key(scored.run)[0] for scored in found.kept.runs}
    return {**found.effects(), "join": services == {EVIL}}


def hostile_request() -> bytes:
    """Spans that a sender made up: chosen ids and tracestates, forged marks, a run in the library's scope."""
    exported = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "app"}), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exported))
    for _ in range(COUNT):
        agent_run(
            provider.get_tracer("tests.app"),
            question=EVIL,
            agent=EVIL,
            during=lambda span: span.set_attributes(HOSTILE),
        )
    message = encode_spans(list(exported.get_finished_spans()))
    ids = chosen_ids()
    known: dict[bytes, bytes] = {}
    for span in message.resource_spans[0].scope_spans[0].spans:
        span.trace_id = known.setdefault(span.trace_id, next(ids).to_bytes(16))
        span.trace_state = "otel_evals=1,ot=th:8;rv:ffffffffffffff"
    first = message.resource_spans[0].scope_spans[0].spans[0].trace_id
    own = message.resource_spans[0].scope_spans.add()
    own.scope.name = "otel_evals"
    rest = [s for s in message.resource_spans[0].scope_spans[0].spans if s.trace_id != first]
    own.spans.extend(s for s in message.resource_spans[0].scope_spans[0].spans if s.trace_id == first)
    del message.resource_spans[0].scope_spans[0].spans[:]
    message.resource_spans[0].scope_spans[0].spans.extend(rest)
    return bytes(message.SerializeToString())


def by_otlp_body() -> dict[Decision, bool]:
    with Seen() as seen:
        with GatewayThread(*rules(), destinations=seen.destinations) as gateway:
            assert gateway.post("/v1/traces", hostile_request())[0] == 200
            eventually(lambda: len(seen.of("good")) == COUNT - 1)
            assert gateway.service.scoring.engine.flush(SECONDS)
            items = gateway.service._stats()[1]["items"]["traces"]
            assert items["evaluation_span"] == 3
            assert items["mark_not_signed"] == 3 * (COUNT - 1)
        effects = seen.effects()
    assert 8 < len(seen.of("half")) < 32, "the sender did not choose"
    assert {e.sampled.probability for e in seen.of("good")} == {0.5}, "one head sampler's"
    return effects


def by_kafka_key() -> dict[Decision, bool]:
    with kafka_broker() as address:
        return by_keys(address)


def by_keys(address: str) -> dict[Decision, bool]:
    kafka = pytest.importorskip("confluent_kafka")
    exported = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "app"}), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exported))
    producer = kafka.Producer({"bootstrap.servers": address})
    for _ in range(COUNT):
        agent_run(provider.get_tracer("tests.app"))
        body = encode_spans(list(exported.get_finished_spans())).SerializeToString()
        exported.clear()
        producer.produce("otlp_spans", body, json.dumps({**HOSTILE, "trace_id": "0" * 32}))
    assert producer.flush(SECONDS) == 0
    with Seen() as seen:
        section = {"kafka": {"brokers": [address]}}
        with GatewayThread(*rules(), destinations=seen.destinations, gateway=section) as gateway:
            eventually(lambda: len(seen.of("good")) == COUNT)
            assert gateway.service.scoring.engine.flush(SECONDS)
        return seen.effects()


def by_file() -> dict[Decision, bool]:
    with Seen() as seen, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "spans.pb"
        file.write_bytes(hostile_request())
        score_files([str(file)], build_config(rules(), seen.destinations))
        effects = seen.effects()
    assert len(seen.of("half")) == COUNT - 1, "whoever wrote the file chose"
    return effects


def by_web_form() -> dict[Decision, bool]:
    from starlette.testclient import TestClient

    from otel_evals_monitor._internal.page.access import Access
    from otel_evals_monitor._internal.page.app import Page
    from otel_evals_monitor._internal.store.labels import labels_on
    from otel_evals_monitor._internal.store.writer import ResultsStore
    from tests.support.result_records import record

    with tempfile.TemporaryDirectory() as folder:
        store = ResultsStore(Path(folder) / "results.db")
        store.write([record(1, 0.5)])
        judged = record(1, 0.5)
        access = Access(None, "127.0.0.1")
        client = TestClient(Page(store.database, access=access).app, base_url="http://127.0.0.1")
        form = {"evaluation_id": judged["evaluations"][0]["evaluation_id"], "label": "0", **HOSTILE}
        form["trace_id"] = judged["trace_id"]
        refused = client.post("/labels", data=form, follow_redirects=False).status_code
        assert refused == 403
        assert not list(labels_on(store.database, judged["trace_id"]))
        sent = client.post("/labels", data={**form, "csrf": access.csrf}, follow_redirects=False).status_code
        said = {"trace_id": judged["trace_id"], "value": 0.0, "name": "thumbs", "comment": f"{EVIL}<script>"}
        assert client.post("/feedback", json=said).status_code == 201
        page = client.get(f"/runs/{judged['trace_id']}").text
        labelled = list(labels_on(store.database, judged["trace_id"]))
        assert "0.5" in page
        assert "<script>" not in page
        store.close()
    unchanged: dict[Decision, bool] = dict.fromkeys(DECISIONS, False)
    return {**unchanged, "overwrite": sent == 303 and bool(labelled), "render": "EVIL" in page}


def by_plugin() -> dict[Decision, bool]:
    class Often(sampling.Sampler):
        def chance(self, run: Run, earlier: Any = None) -> Chance:
            return Chance(0.75)

        def __str__(self) -> str:
            return "often"

    def judged(run: Run) -> Score:
        step = StepRecord(name="s", model="m", cost=3.0)
        return Score(value=1.0, label=EVIL * 100, explanation=EVIL, steps=(step,))

    with Seen() as seen:
        provider = TracerProvider(resource=Resource({"service.name": "app"}), shutdown_on_exit=False)
        plugins = [
            Rule(scorer(id="judge", inline=True)(judged)),
            Rule(scorer(id="half", inline=True)(lambda run: 1.0), sample=Often()),
            Rule(good, when=lambda run: False),
            Rule(scorer(id="fails", inline=True)(lambda run: EVIL)),
        ]
        pipeline = otel_evals.Pipeline(build_config(plugins, seen.destinations, grace=0.0))
        provider.add_span_processor(pipeline.spans)
        for _ in range(COUNT):
            agent_run(provider.get_tracer("tests.app"), agent="support")
        assert pipeline.force_flush(100_000)
        pipeline.shutdown()
        labels = [e.outcome.label for e in seen.of("judge") if isinstance(e.outcome, Score)]
        assert {len(label or "") for label in labels} == {256}
        chances = {each.sampled.probability for each in seen.of("half")}
        return {**seen.effects(), "sample": chances == {0.75}}


DRIVERS: Mapping[Channel, Callable[[], dict[Decision, bool]]] = {
    "HTTP header": by_header,
    "baggage": by_baggage,
    "tracestate": by_tracestate,
    "traceparent": by_traceparent,
    "span attribute": by_span_attribute,
    "resource attribute": by_resource_attribute,
    "OTLP body": by_otlp_body,
    "Kafka key": by_kafka_key,
    "file": by_file,
    "web form": by_web_form,
    "plug-in return value": by_plugin,
}


@cache
def effects_of(channel: Channel) -> Mapping[Decision, bool]:
    return DRIVERS[channel]()


@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize("channel", CHANNELS)
def test_a_value_from_a_channel_takes_part_in_a_decision_as_the_table_says(
    channel: Channel, decision: Decision
) -> None:
    said = answer(channel, decision)
    assert effects_of(channel)[decision] is said.startswith("yes"), said


def signed_headers(channel: Channel) -> Mapping[str, str]:
    if channel == "baggage":
        return {"baggage": f"otel_evals.internal={signature()}"}
    return {**traceparents()[0], "tracestate": f"otel_evals={signature()}"}


@pytest.mark.parametrize("channel", ["baggage", "tracestate", "span attribute"])
def test_a_signed_value_counts_where_the_table_says_so(channel: Channel) -> None:
    assert answer(channel, "ignore") == "only if signed"
    if channel != "span attribute":
        assert serve([signed_headers(channel)]).effects(1)["ignore"]
        return
    with Seen() as seen:
        provider = TracerProvider(shutdown_on_exit=False)
        pipeline = otel_evals.Pipeline(build_config(rules(), [seen.kept], grace=0.0))
        provider.add_span_processor(pipeline.spans)

        def prove(span: trace.Span) -> None:
            ids = span.get_span_context()
            proof = proof_of(f"{ids.trace_id:032x}", f"{ids.span_id:016x}")
            span.set_attribute(semconv.MARK_PROOF, proof)

        agent_run(provider.get_tracer("tests.app"), during=prove)
        assert pipeline.force_flush(100_000)
        assert pipeline.stats().ignored == {"nothing_to_judge": 1}
        pipeline.shutdown()


def test_security_md_has_the_table() -> None:
    assert table() in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
