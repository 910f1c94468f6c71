"""The options of `configure` with their types, so that editors complete and type checkers check them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, TypedDict

from otel_evals._internal.redaction.redactor import Redaction

__all__ = ["ConfigOptions"]


class ConfigOptions(TypedDict, total=False):
    """The fields of `Config` besides rules and destinations, which explains them; durations as `5s` too."""

    span_attributes: bool
    wrap_exporters: bool
    evaluation_events: bool
    evaluation_spans: Literal["linked", "same_trace", "off", True, False]
    metrics: bool
    metric_attributes: Sequence[Literal["version", "tenant"]]
    hold: float | str
    hold_limit: int
    grace: float | str
    max_age: float | str
    max_open_traces: int
    max_spans_per_trace: int
    max_bytes: int
    max_conversations: int
    max_conversation_bytes: int
    conversation_keep: float | str
    queue_size: int
    trust_remote: bool
    capture_content: bool
    redact: Redaction | Callable[[str], str] | Sequence[str | Callable[[str], str]] | Literal[False]
    explain_traces: int
    quiet_after: float | str
    shutdown_timeout: float | str
    handle_sigterm: bool
    store: str | Path | None
    store_max_bytes: int
    store_max_age: float | str
    store_keep: float | str
    store_lease: float | str
    store_attempts: int
    alarms: object
    gateway: object
