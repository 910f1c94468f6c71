"""Deliveries of scored runs: which destinations have answered, and which did not accept."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from otel_evals._internal.deliver.retry import FINAL
from otel_evals._internal.model import ScoredRun

_START = "\0start"
"""Awaited, besides the destinations, until the scored run is queued for all of them."""


@dataclass(slots=True, eq=False)
class _Delivery:
    scored: ScoredRun
    done: Callable[[list[str]], None]
    awaited: set[str] = field(default_factory=lambda: {_START})
    missed: list[str] = field(default_factory=list)


class Deliveries:
    """Hands scored runs to destinations, by `FanOut.put`, and reports when all of them have answered."""

    def __init__(self, put: Callable[..., Collection[str]]) -> None:
        self._put = put
        self._deliveries: dict[int, _Delivery] = {}

    def start(
        self,
        scored: ScoredRun,
        destinations: Collection[str] | None,
        done: Callable[[list[str]], None],
        *,
        kept: bool = True,
    ) -> None:
        """Deliver a scored run; call `done` once, with the destinations to try again later.

        Destinations do not count it as lost if it is `kept` for that.
        """
        delivery = self._deliveries[id(scored)] = _Delivery(scored, done)
        names = self._put(scored, destinations, kept=kept)
        # A destination whose queue is full has answered already, inside `put`.
        delivery.awaited |= set(names).difference(delivery.missed)
        self._answered(delivery, _START)

    def answered(self, destination: str, batch: Sequence[ScoredRun], end: str) -> None:
        """Note that a destination accepted or lost scored runs: `end` is `exported` or the reason."""
        for scored in batch:
            delivery = self._deliveries.get(id(scored))
            if delivery is not None:
                if end not in FINAL:
                    delivery.missed.append(destination)
                self._answered(delivery, destination)

    def _answered(self, delivery: _Delivery, name: str) -> None:
        delivery.awaited.discard(name)
        if not delivery.awaited:
            del self._deliveries[id(delivery.scored)]
            delivery.done(delivery.missed)
