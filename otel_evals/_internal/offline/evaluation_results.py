"""Results of an evaluation: by item and by scorer, as objects, JSON and a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from otel_evals._internal.deliver.record import plain, run_record
from otel_evals._internal.model import Evaluation, Run, Score, ScoredRun
from otel_evals._internal.offline.data_sets import Item
from otel_evals._internal.offline.requirements import EvalsStatus, Requirement
from otel_evals._internal.offline.table import as_rich, as_text
from otel_evals._internal.offline.tally import ScorerTally
from otel_evals._internal.util.plain import write_json


@dataclass(frozen=True, kw_only=True)
class ItemResult:
    """One item, the target's answer, and its evaluations."""

    item: Item
    output: Any = None
    """Return value of the target."""
    error: str | None = None
    """Exception of the target."""
    run: Run | None = None
    """The scored run: the last one of its spans, or without spans a run of its input and output. None if the
    target failed without spans."""
    runs: tuple[Run, ...] = ()
    """All runs of its spans, in the order of their ends."""
    evaluations: tuple[Evaluation, ...] = ()
    duration: float = 0.0
    """Seconds that the target took."""

    @property
    def scores(self) -> dict[str, float]:
        """Scores by scorer id; other outcomes are left out."""
        return {e.scorer_id: e.outcome.value for e in self.evaluations if isinstance(e.outcome, Score)}

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "input": plain(self.item.input),
            "ground_truth": plain(self.item.ground_truth),
            "metadata": plain(self.item.metadata),
            "error": self.error,
            "duration": self.duration,
            "run": self.run and run_record(ScoredRun(run=self.run, evaluations=self.evaluations)),
        }


@dataclass(frozen=True, kw_only=True)
class EvalsResult:
    """Results of all items, in the order of the data. `print` and `rich.print` show a table."""

    items: tuple[ItemResult, ...]
    scorers: Mapping[str, ScorerTally]
    """By scorer id."""
    requirements: tuple[Requirement, ...] = ()
    """Gates first."""
    status: EvalsStatus | None = None
    """`failed`: a gate is not met; `scored`: a threshold is not met; `passed`: all are met; None: no
    requirements."""

    @property
    def errors(self) -> int:
        """Number of items whose target raised."""
        return sum(item.error is not None for item in self.items)

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "status": self.status,
            "errors": self.errors,
            "scorers": {name: plain(tallied) for name, tallied in self.scorers.items()},
            "requirements": [plain(requirement) for requirement in self.requirements],
            "items": [item.as_json() for item in self.items],
        }

    def write(self, path: str | Path) -> None:
        """Write everything as a JSON file."""
        text = write_json(self.as_json(), indent=2)
        Path(path).write_text(text + "\n", "utf-8")

    def __str__(self) -> str:
        return "\n".join([as_text(tuple(self.scorers.values()), self.requirements), self._last_line()])

    def __rich__(self) -> Any:
        table = as_rich(tuple(self.scorers.values()), self.requirements)
        table.caption = self._last_line()
        return table

    def _last_line(self) -> str:
        items = f"{len(self.items)} item{'s' * (len(self.items) != 1)}, {self.errors} failed"
        return items if self.status is None else f"{items}; {self.status}"
