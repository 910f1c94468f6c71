"""Findings of the doctor, and their text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

Status = Literal["fine", "note", "problem"]
SPANS = "instrumentation"
"""Name of the check for spans of agents, which succeeds if any process of a program has some."""
_SIGNS = {"fine": "ok", "note": "note", "problem": "PROBLEM"}


@dataclass(frozen=True)
class Finding:
    """A check's result."""

    status: Status
    """`note`: runs are scored, but something is missing. `problem`: runs are not scored."""
    check: str
    """Short name of the check, such as `tracer_provider`."""
    text: str
    fix: str = ""
    """A line of code or configuration that fixes it."""


fine, note, problem = partial(Finding, "fine"), partial(Finding, "note"), partial(Finding, "problem")


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """All findings. `str()` returns them as text, problems last."""

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Return True if there is no problem."""
        return not self.problems

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that are problems."""
        return tuple(finding for finding in self.findings if finding.status == "problem")

    def as_json(self) -> list[dict[str, Any]]:
        """Return the findings as JSON values."""
        return [asdict(finding) for finding in self.findings]

    @classmethod
    def of_json(cls, values: Iterable[Mapping[str, Any]]) -> Diagnosis:
        """Read the output of `as_json`."""
        return cls(findings=tuple(Finding(**value) for value in values))

    @classmethod
    def of_program(cls, reports: Iterable[Diagnosis]) -> Diagnosis:
        """Join the reports of a program's processes; one that saw no agent is fine if another did."""
        found = dict.fromkeys(finding for each in reports for finding in each.findings)
        seen = any(each.check == SPANS and each.status == "fine" for each in found)
        return cls(findings=tuple(f for f in found if not (seen and f.check == SPANS and f.status != "fine")))

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for status in ("fine", "note", "problem"):
            for finding in self.findings:
                if finding.status == status:
                    yield f"{_SIGNS[status]:8}{finding.check}: {finding.text}"
                    if finding.fix:
                        yield f"{'':8}  fix: " + finding.fix.replace("\n", f"\n{'':15}")
        count = len(self.problems)
        yield "no problem found" if not count else f"{count} problem{'s' * (count != 1)}"
