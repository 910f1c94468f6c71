"""Destinations: their interface, delivery to them, and those that need no other library."""

from otel_evals.export.console import ConsoleDestination
from otel_evals.export.counts import DestinationStats
from otel_evals.export.destination import ENTRY_POINT_GROUP, Destination, Unaccepted
from otel_evals.export.fanout import FanOut
from otel_evals.export.jsonl import JsonlDestination, read_jsonl
from otel_evals.export.memory import InMemoryDestination
from otel_evals.export.retry import Retry

__all__ = [
    "ENTRY_POINT_GROUP",
    "ConsoleDestination",
    "Destination",
    "DestinationStats",
    "FanOut",
    "InMemoryDestination",
    "JsonlDestination",
    "Retry",
    "Unaccepted",
    "read_jsonl",
]
