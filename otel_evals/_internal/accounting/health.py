"""Progress of scoring, for liveness probes and dashboards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

HealthStatus = Literal["healthy", "degraded", "stalled", "idle"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The state of the engine at one moment."""

    status: HealthStatus
    """`idle`: there is no work. `stalled`: there is work and no progress, so restart the process. `degraded`:
    rules or destinations fail, or the journal cannot be written."""
    problem: str | None = None
    """What is wrong, if it is `stalled` or `degraded`."""
    thread_alive: bool = False
    """Whether the scoring thread runs; it starts with the first captured span."""
    waiting: int = 0
    """Captured spans and log records in the engine's intake."""
    pending: int = 0
    """Evaluations that are queued or being scored."""
    last_beat: float | None = None
    """Seconds since the last iteration of the engine's event loop; None if there was none."""
    last_end: float | None = None
    """Seconds since an evaluation last ended; None if none did."""
    failing_destinations: tuple[str, ...] = ()
    """Destinations that did not accept their last batch."""
    failing_rules: Mapping[str, str] = field(default_factory=dict)
    """Rules whose last 10 evaluations failed, or half of the last 50; each with its error in words."""
    content_off: Mapping[str, str] = field(default_factory=dict)
    """Instrumentations that left content out, each with the setting that turns it on."""
    losses: Mapping[str, int] = field(default_factory=dict)
    """Everything lost so far, by what was lost and the reason."""

    @property
    def ok(self) -> bool:
        """Return True if the status is `healthy` or `idle`; otherwise `problem` says what is wrong."""
        return self.status in ("healthy", "idle")


def judge_health(
    *,
    closed: bool,
    started: bool,
    thread_alive: bool,
    waiting: int,
    pending: int,
    since_beat: float | None,
    since_progress: float,
    beat_limit: float,
    progress_limit: float,
    failing: Mapping[str, str] = {},
    problems: Sequence[str] = (),
    unstartable: bool = False,
) -> tuple[HealthStatus, str | None]:
    """Return the status and, if it is `stalled` or `degraded`, the problem.

    `since_progress` are seconds since an evaluation ended, or since the first pending one was queued. More
    than `beat_limit` seconds since the event loop's last iteration mean that it is blocked, more than
    `progress_limit` without progress that pending evaluations are stuck. `failing` has the rules that fail
    again and again, which matters until scoring is `closed`, and `problems` everything else that is wrong.
    """
    if (started or unstartable) and not thread_alive and not closed:
        problem = "has ended" if started else f"cannot be started, {waiting} items wait"
        return "stalled", f"the scoring thread {problem}"
    if thread_alive and since_beat is not None and since_beat > beat_limit:
        return "stalled", f"the scoring thread has been blocked for {since_beat:.1f} s, {waiting} items wait"
    if pending and since_progress > progress_limit:
        return "stalled", f"none of {pending} evaluations has ended for {since_progress:.1f} s"
    rules = [] if closed else [f"{name}: {problem}" for name, problem in sorted(failing.items())]
    if rules or problems:
        return "degraded", "; ".join([*rules, *problems])
    return ("healthy" if waiting or pending else "idle"), None
