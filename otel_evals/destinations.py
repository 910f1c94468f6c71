"""Destinations: the built-in ones, and the kit to write one.

A destination receives batches of `ScoredRun`. Register its class under the entry-point group
`otel_evals_destination` to name it in a configuration file.
"""

from otel_evals._internal.deliver.api import ApiDestination, Errors, needed, server_url
from otel_evals._internal.deliver.console import ConsoleDestination
from otel_evals._internal.deliver.destination import (
    Destination,
    DestinationStats,
    EventPreset,
    SpansTo,
    Unaccepted,
)
from otel_evals._internal.deliver.http import HttpAnswer, HttpClient, HttpOptions, HttpSettings
from otel_evals._internal.deliver.items import (
    ScoreItem,
    attributes_of,
    cut,
    iso,
    items_of,
    one_resource,
    service_of,
)
from otel_evals._internal.deliver.jsonl import JsonlDestination, read_jsonl
from otel_evals._internal.deliver.memory import InMemoryDestination
from otel_evals._internal.deliver.record import plain, run_record
from otel_evals._internal.deliver.retry import TRACE_NOT_FOUND

__all__ = [
    "TRACE_NOT_FOUND",
    "ApiDestination",
    "ConsoleDestination",
    "Destination",
    "DestinationStats",
    "Errors",
    "EventPreset",
    "HttpAnswer",
    "HttpClient",
    "HttpOptions",
    "HttpSettings",
    "InMemoryDestination",
    "JsonlDestination",
    "ScoreItem",
    "SpansTo",
    "Unaccepted",
    "attributes_of",
    "cut",
    "iso",
    "items_of",
    "needed",
    "one_resource",
    "plain",
    "read_jsonl",
    "run_record",
    "server_url",
    "service_of",
]
