"""Scored runs on their way to destinations, and which of those have not taken them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from otel_evals.model import ScoredRun

__all__ = ["Flights"]

_NEVER_AGAIN = ("exported", "refused")
"""Ends after which sending it once more is of no use."""


@dataclass(slots=True, eq=False)
class _Flight:
    scored: ScoredRun
    landed: Callable[[list[str]], None]
    open: set[str] = field(default_factory=set)
    missed: list[str] = field(default_factory=list)
    starting: bool = True


class Flights:
    """Hands scored runs to destinations and says when all of them have answered.

    Args:
        put: hands a scored run to destinations, to all or to those named; returns their names.
    """

    def __init__(self, put: Callable[[ScoredRun, Collection[str] | None], Sequence[str]]) -> None:
        self._put = put
        self._flights: dict[int, _Flight] = {}

    def start(
        self, scored: ScoredRun, places: Collection[str] | None, landed: Callable[[list[str]], None]
    ) -> None:
        """Deliver; `landed` is called once with the destinations that may take it another time."""
        flight = self._flights[id(scored)] = _Flight(scored, landed)
        names = set(self._put(scored, places))
        # A destination whose queue is full has answered already.
        flight.open |= names.difference(flight.missed)
        flight.starting = False
        self._check(flight)

    def told(self, name: str, batch: Sequence[ScoredRun], end: str) -> None:
        """What became of scored runs at a destination."""
        for scored in batch:
            flight = self._flights.get(id(scored))
            if flight is not None:
                flight.open.discard(name)
                if end not in _NEVER_AGAIN:
                    flight.missed.append(name)
                self._check(flight)

    def _check(self, flight: _Flight) -> None:
        if not flight.open and not flight.starting:
            del self._flights[id(flight.scored)]
            flight.landed(flight.missed)
