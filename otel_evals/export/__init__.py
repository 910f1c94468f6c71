"""The way out: the socket for destinations, the fan-out to them, and those that need nothing else."""

from otel_evals.export.console import ConsoleDestination
from otel_evals.export.fanout import DestinationStats, FanOut, Retry
from otel_evals.export.jsonl import JsonlDestination, read_jsonl
from otel_evals.export.memory import InMemoryDestination
from otel_evals.export.socket import ENTRY_POINT_GROUP, Destination

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
