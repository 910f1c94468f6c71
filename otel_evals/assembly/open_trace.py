"""What has arrived of a trace that is not complete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from otel_evals.model import SpanEvent, SpanRecord

__all__ = ["OpenTrace", "oldest_first"]


@dataclass(slots=True)
class OpenTrace:
    """What has arrived of a trace."""

    first_seen: float
    last_seen: float
    spans: dict[str, SpanRecord] = field(default_factory=dict)
    arrived: dict[str, float] = field(default_factory=dict)
    """When each claimed span arrived."""
    links: dict[str, str | None] = field(default_factory=dict)
    """The parents of unclaimed spans."""
    logs: dict[str, list[SpanEvent]] = field(default_factory=dict)
    size: int = 0
    rooted: bool = False
    """Whether a span without a parent has arrived."""

    def top(self, span_id: str) -> str:
        """The topmost claimed span above this one that has arrived; malformed traces may have cycles."""
        top, above, seen = span_id, self.spans[span_id].parent_span_id, {span_id}
        while above is not None and above not in seen:
            seen.add(above)
            if above in self.spans:
                top, above = above, self.spans[above].parent_span_id
            else:
                above = self.links.get(above)
        return top

    def unclaimed_with_logs(self) -> Iterator[SpanRecord]:
        """Unclaimed spans in whose context something was logged: it may belong to a claimed span beside."""
        trace_id = next((span.trace_id for span in self.spans.values()), "")
        for span_id, parent in self.links.items():
            if logs := self.logs.pop(span_id, None):
                yield SpanRecord(
                    trace_id=trace_id, span_id=span_id, parent_span_id=parent, logs=oldest_first(logs)
                )


def oldest_first(logs: Iterable[SpanEvent]) -> tuple[SpanEvent, ...]:
    """Log records in the order of their times."""
    return tuple(sorted(logs, key=lambda log: log.time))
