"""Spans are taken out of a request, and given attributes, without a change to anything else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_evals_gateway._internal.inline import parts_of, with_attributes, without
from otel_evals_gateway._internal.receiver.selection import Place

shapes = st.lists(st.lists(st.integers(0, 4), max_size=3), max_size=3)


def request_of(shape: Sequence[Sequence[int]]) -> tuple[Any, list[Place]]:
    """A request with so many spans in each scope of each resource, and their places."""
    request = ExportTraceServiceRequest()
    places: list[Place] = []
    for r, scopes in enumerate(shape):
        block = request.resource_spans.add(schema_url=f"schema {r}")
        block.resource.attributes.add(key="service.name").value.string_value = f"service {r}" * 20
        for s, count in enumerate(scopes):
            scoped = block.scope_spans.add(schema_url="x" * 200)
            scoped.scope.name = f"scope {s}"
            for i in range(count):
                span = scoped.spans.add(
                    trace_id=bytes([r + 1]) * 16, span_id=bytes([s, i]) * 4, name=f"{r}{s}{i}"
                )
                span.attributes.add(key="text").value.string_value = "ä" * 90
                places.append((r, s, i))
    return request, places


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(shapes, st.randoms(use_true_random=False))
def test_a_request_and_the_parts_taken_out_of_it_hold_what_it_held(shape: Any, random: Any) -> None:
    request, places = request_of(shape)
    data = request.SerializeToString()
    chosen = {place for place in places if random.random() < 0.5}
    rest = ExportTraceServiceRequest.FromString(without(data, chosen))
    expected = ExportTraceServiceRequest()
    expected.CopyFrom(request)
    for r, s, i in sorted(chosen, reverse=True):
        del expected.resource_spans[r].scope_spans[s].spans[i]
    assert rest == expected
    parts = dict(parts_of(data, chosen))
    assert parts.keys() == chosen
    for (r, s, i), part in parts.items():
        (block,) = ExportTraceServiceRequest.FromString(part).resource_spans
        original = request.resource_spans[r]
        (scoped,) = block.scope_spans
        assert (block.resource, block.schema_url) == (original.resource, original.schema_url)
        assert scoped.scope == original.scope_spans[s].scope
        assert list(scoped.spans) == [original.scope_spans[s].spans[i]]


def test_attributes_are_added_to_a_span() -> None:
    request, _ = request_of([[1]])
    ((_, part),) = parts_of(request.SerializeToString(), {(0, 0, 0)})
    assert with_attributes(part, {}) == part
    scored = with_attributes(part, {"score": 0.5, "label": "so"})
    (block,) = ExportTraceServiceRequest.FromString(scored).resource_spans
    (found,) = block.scope_spans[0].spans
    assert [a.key for a in found.attributes] == ["text", "score", "label"]
    assert found.attributes[1].value.double_value == 0.5
    assert found.attributes[2].value.string_value == "so"


def test_fields_that_this_version_does_not_know_keep_their_bytes() -> None:
    unknown = b"\xd2\x3e\x03new\xd8\x3e\x05\xdd\x3e\x01\x02\x03\x04\xe1\x3e\x01\x02\x03\x04\x05\x06\x07\x08"
    request, _ = request_of([[2]])
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.ParseFromString(span.SerializeToString() + unknown)
    data = request.SerializeToString() + unknown
    assert without(data, {(0, 0, 1)}).count(unknown) == 2
    ((_, part),) = parts_of(data, {(0, 0, 0)})
    assert with_attributes(part, {"score": 0.5}).count(unknown) == 1
