"""The base of destinations that need nothing sent: they read what is emitted, if it has their attributes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from otel_evals._internal.model import Evaluation, Run, ScoredRun


class EventPreset(ABC):
    """Adds attributes to evaluation events, which your own exporters carry to the backend.

    It sends nothing itself, so it is not among the counts of destinations.
    """

    name: str
    """As in configuration."""
    kind: ClassVar[Literal["api", "otel"]] = "otel"
    needs: ClassVar[tuple[str, ...]] = ()
    """Environment variables, or options, without which it cannot be used."""

    @abstractmethod
    def event_attributes(self, run: Run, evaluation: Evaluation) -> Mapping[str, Any]:
        """Attributes of the event of an evaluation."""

    def trace_url(self, trace_id: str, span_id: str) -> str | None:
        """Where people find a span's trace; None if that cannot be told."""
        return None

    def spans_to(self) -> tuple[str, Mapping[str, str]] | None:
        """Address and headers for sending telemetry there by OTLP over HTTP; None if that is not possible."""
        return None

    async def export(self, batch: Sequence[ScoredRun]) -> None:
        """Send nothing."""
        return

    async def shutdown(self) -> None:
        """Free nothing."""
        return
