"""A backend that has one score per evaluation keeps the newest revision, whatever the order of delivery."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from otel_evals.destinations import ApiDestination, ScoreItem
from otel_evals.errors import DestinationError
from otel_evals.model import Score, ScoredRun
from tests.support.replacing import replace
from tests.support.scored import scored_run

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Backend(ApiDestination):
    """Keeps the last value that was sent for an id; refuses the values that it is told to."""

    name = "backend"

    def __init__(self) -> None:
        super().__init__("http://localhost", {})
        self.scores: dict[str, float | None] = {}
        self.away: set[float] = set()

    async def send(self, items: Sequence[ScoreItem]) -> None:
        if any(item.value in self.away for item in items):
            raise DestinationError("away", retryable=True, status=503)
        self.scores.update({item.id: item.value for item in items})


def revision(number: int, value: float) -> ScoredRun:
    scored = scored_run(0, {"tone": Score(value=value)})
    return replace(scored, evaluations=tuple(replace(e, revision=number) for e in scored.evaluations))


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
@pytest.mark.parametrize("at_once", [True, False])
async def test_the_newest_revision_stays(order: tuple[int, int], at_once: bool) -> None:
    backend, runs = Backend(), [revision(number, number / 10) for number in order]
    for batch in [runs] if at_once else [[run] for run in runs]:
        assert await backend.export(batch) == []
    assert list(backend.scores.values()) == [0.2]


async def test_a_later_revision_that_was_not_accepted_does_not_hold_up_an_earlier_one() -> None:
    backend = Backend()
    backend.away.add(0.2)
    with pytest.raises(DestinationError):
        await backend.export([revision(2, 0.2)])
    await backend.export([revision(1, 0.1)])
    assert list(backend.scores.values()) == [0.1]
    backend.away.clear()
    await backend.export([revision(2, 0.2)])
    assert list(backend.scores.values()) == [0.2]
