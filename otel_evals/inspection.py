"""What can be asked of a running pipeline: a trace's story, its health, its losses.

Called on any thread; changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from otel_evals.assembly.live import Assembler
from otel_evals.config import Config
from otel_evals.engine import Accounts, EngineLoop, Health, Stats, Stories
from otel_evals.engine.health import judge_health
from otel_evals.engine.stories import Story
from otel_evals.explanation import Explanation, explain_story, explain_unseen
from otel_evals.export import DestinationStats, FanOut
from otel_evals.judging import rule_names

__all__ = ["Inspector", "losses_of", "trace_id_of"]

_NOT_A_LOSS = {"trace_not_sampled", "nothing_to_judge"}
_LONGEST_REST = 40.0


class Inspector:
    """Looks into the stages.

    Args:
        config: rules and limits.
        engine: what waits, and whether the thread turns.
        accounts: the books.
        stats: these and the store's, at the moment of the call.
        assembler: spans that wait for their root.
        stories: what is remembered of each trace.
        fan_out: destinations.
    """

    def __init__(
        self,
        config: Config,
        engine: EngineLoop[Any],
        accounts: Accounts,
        stats: Callable[[], Stats],
        assembler: Assembler,
        stories: Stories,
        fan_out: FanOut,
    ) -> None:
        self._config = config
        self._engine = engine
        self._accounts = accounts
        self._stats = stats
        self._assembler = assembler
        self._stories = stories
        self._fan_out = fan_out
        self._samplers = {name: str(rule.sample) for name, rule in rule_names(config.rules).items()}
        self._longest_try = max((rule.timeout for rule in config.rules), default=0.0)

    def explain(self, trace_id: int | str, trace_state: str = "") -> Explanation:
        """What happened to a trace. Waits up to a second for the engine to take in what was captured."""
        trace = trace_id_of(trace_id)
        if self._engine.started and self._engine.waiting:
            self._engine.run(self._drain(), 1.0)
        gathered = self._assembler.gathered(trace)
        story = self._stories.get(trace)
        if story is None and not gathered:
            return explain_unseen(trace, self._config.ceiling, trace_state, tuple(self._doubts()))
        return explain_story(trace, story or Story(), self._samplers, gathered)

    def health(self, stalled_after: float, *, closed: bool) -> Health:
        """Whether scoring goes on."""
        now, engine, accounts = time.monotonic(), self._engine, self._accounts
        since_beat = None if engine.beat is None else now - engine.beat
        waiting, pending = engine.waiting, accounts.pending
        status, problem = judge_health(
            closed=closed,
            started=engine.started,
            thread_alive=engine.alive,
            waiting=waiting,
            pending=pending,
            since_beat=since_beat,
            since_progress=now - accounts.moved,
            beat_limit=stalled_after,
            progress_limit=self._longest_try + _LONGEST_REST + stalled_after,
        )
        return Health(
            status=status,
            problem=problem,
            thread_alive=engine.alive,
            waiting=waiting,
            pending=pending,
            last_beat=since_beat,
            last_end=None if accounts.last_end is None else now - accounts.last_end,
            failing_destinations=self._fan_out.failing(),
            losses=self.losses(),
        )

    def losses(self) -> Mapping[str, int]:
        """All losses so far, by what and why."""
        return losses_of(self._stats(), self._fan_out.stats())

    async def _drain(self) -> None:
        self._engine.drain()

    def _doubts(self) -> Iterator[str]:
        """Why a trace that sampling did not rule out may be unknown."""
        yield (
            "It was not started in this process, its spans are of a kind that no dialect knows, "
            "or the application's own sampler did not sample it."
        )
        if self._engine.refused:
            yield f"{self._engine.refused} spans or log records found no room; its own may be among them."
        if len(self._stories) >= self._config.explain_traces:
            yield f"Only the last {len(self._stories)} traces are remembered."


def losses_of(stats: Stats, destinations: Mapping[str, DestinationStats]) -> dict[str, int]:
    """What the books, the store and the destinations say was lost."""
    lost = {f"spans or log records ({reason})": count for reason, count in stats.losses.items()}
    for reason, count in stats.ignored.items():
        if reason not in _NOT_A_LOSS:
            lost[f"runs ({reason})"] = count
    for name, count in stats.conversations.items():
        if name.startswith("lost."):
            lost[f"conversations ({name.removeprefix('lost.')})"] = count
    for name, rule in stats.rules.items():
        for reason, count in rule.dropped.items():
            lost[f"evaluations by {name} ({reason})"] = count
    for reason, count in stats.store.items():
        if reason.startswith("evicted."):
            lost[f"runs in the store ({reason})"] = count
    for name, destination in destinations.items():
        for reason, count in destination.losses.items():
            lost[f"scored runs for {name} ({reason})"] = count
    return lost


def trace_id_of(trace_id: int | str) -> str:
    """A trace id as 32 lower-case hex digits.

    Raises:
        ValueError: it is none.
    """
    try:
        number = trace_id if isinstance(trace_id, int) else int(trace_id.strip(), 16)
    except ValueError:
        number = 0
    if not 0 < number < 1 << 128:
        raise ValueError(f"{trace_id!r} is no trace id: give 32 hex digits, or the id as a number")
    return f"{number:032x}"
