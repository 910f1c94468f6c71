"""Takes spans out of requests, to forward them by themselves and with scores; unknown fields stay."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

Place = tuple[int, int, int]
"""Indices of resource, scope and span."""


def without(data: bytes, places: Collection[Place]) -> bytes:
    """Return a request without the spans at these places."""
    if not places:
        return data
    request = ExportTraceServiceRequest.FromString(data)
    # From the end, since each deletion moves the spans behind it.
    for r, s, i in sorted(places, reverse=True):
        del request.resource_spans[r].scope_spans[s].spans[i]
    return request.SerializeToString()


def parts_of(data: bytes, places: Collection[Place]) -> Iterator[tuple[Place, bytes]]:
    """Yield the spans at these places, each as a separate request with its resource and scope."""
    request = ExportTraceServiceRequest.FromString(data)
    for (r, s), group in groupby(sorted(places), key=itemgetter(0, 1)):
        block = request.resource_spans[r]
        scoped = block.scope_spans[s]
        part = ExportTraceServiceRequest()
        around = part.resource_spans.add(resource=block.resource, schema_url=block.schema_url)
        beside = around.scope_spans.add(scope=scoped.scope, schema_url=scoped.schema_url)
        for place in group:
            # The same message for each span: resource and scope are copied once.
            del beside.spans[:]
            beside.spans.append(scoped.spans[place[2]])
            yield place, part.SerializeToString()


def with_attributes(part: bytes, attributes: Mapping[str, Any]) -> bytes:
    """Add attributes to a request with a single span."""
    if not attributes:
        return part
    request = ExportTraceServiceRequest.FromString(part)
    span = request.resource_spans[0].scope_spans[0].spans[0]
    for key, value in attributes.items():
        added = span.attributes.add(key=key).value
        if isinstance(value, float):
            added.double_value = value
        else:
            added.string_value = str(value)
    return request.SerializeToString()
