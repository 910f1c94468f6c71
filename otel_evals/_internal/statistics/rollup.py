"""What is kept of one slice and time bucket: sums of its scored runs, and how the others ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from otel_evals._internal.statistics.checks import check_names
from otel_evals._internal.statistics.clusters import Clusters
from otel_evals._internal.statistics.sums import Sums, Tally


@dataclass(frozen=True, slots=True)
class Rollup:
    """What is kept of one slice and time bucket. Rollups of disjoint sets of runs add up."""

    scored: Sums = field(default_factory=Sums)
    others: Mapping[tuple[str, str], Tally] = field(default_factory=dict)
    """Sampled runs without a score, by outcome and reason."""
    clusters: Clusters | None = None
    """Of the scored runs; None where not all of them are in it."""

    def __add__(self, other: Rollup) -> Rollup:
        keys = [*self.others, *(key for key in other.others if key not in self.others)]
        none = Tally()
        parts = [part for part in (self, other) if part.clusters or part.scored.w]
        clusters = [part.clusters for part in parts if part.clusters]
        return Rollup(
            scored=self.scored + other.scored,
            others={key: self.others.get(key, none) + other.others.get(key, none) for key in keys},
            clusters=sum(clusters[1:], clusters[0]) if clusters and len(clusters) == len(parts) else None,
        )

    def to_plain(self) -> dict[str, Any]:
        """Plain values, as JSON and tables hold them; `from_plain` gives exactly this object back."""
        return {
            "scored": self.scored.to_plain(),
            "others": [
                {"outcome": outcome, "reason": reason, **asdict(tally)}
                for (outcome, reason), tally in self.others.items()
            ],
            "clusters": {"wx": list(self.clusters.wx), "w": list(self.clusters.w)} if self.clusters else None,
        }

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Rollup:
        """The opposite of `to_plain`.

        Raises:
            ValueError: a field is missing, unknown, or no number of its kind; the message names it.
        """
        check_names(cls, values)
        clusters = values.get("clusters")
        return cls(
            scored=Sums.from_plain(values.get("scored", {})),
            others=dict(_tally(row) for row in values.get("others", ())),
            clusters=Clusters(tuple(clusters["wx"]), tuple(clusters["w"])) if clusters else None,
        )


def _tally(row: Mapping[str, Any]) -> tuple[tuple[str, str], Tally]:
    key = str(row.get("outcome", "")), str(row.get("reason", ""))
    values = {name: value for name, value in row.items() if name not in ("outcome", "reason")}
    check_names(Tally, values)
    return key, Tally(**values)
