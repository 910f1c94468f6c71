"""Destinations: their interface, delivery to them, and those that need no other library."""

from otel_evals.export.console import ConsoleDestination
from otel_evals.export.destination import ENTRY_POINT_GROUP, Destination
from otel_evals.export.fanout import DestinationStats, FanOut, Retry
from otel_evals.export.jsonl import JsonlDestination, read_jsonl
from otel_evals.export.memory import InMemoryDestination

__all__ = [
    "ENTRY_POINT_GROUP",
    "ConsoleDestination",
    "Destination",
    "DestinationStats",
    "FanOut",
    "InMemoryDestination",
    "JsonlDestination",
    "Retry",
    "read_jsonl",
]
