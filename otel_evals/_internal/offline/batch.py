"""Scores finished runs in batches, with the engine of live scoring."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from msgspec import structs

from otel_evals._internal.accounting.counters import Stats
from otel_evals._internal.attach.attacher import Attacher
from otel_evals._internal.config.options import Config
from otel_evals._internal.deliver.destination import DestinationStats
from otel_evals._internal.deliver.jsonl import read_jsonl
from otel_evals._internal.engine.engine import Engine
from otel_evals._internal.model import (
    Dropped,
    Evaluation,
    NotScored,
    Outcome,
    Run,
    Score,
    ScoredRun,
    ScorerFailure,
)
from otel_evals._internal.model.convention import Conventions

_Item = TypeVar("_Item")
_Evaluations = tuple[Evaluation, ...]
_UNBOUNDED = 2**62
_AT_ONCE = 64
_FLUSH_EVERY = 1024
_FOREVER = 10.0**9
_BUDGET = "BudgetExceededError"


@dataclass(slots=True, eq=False)
class _Submitted:
    """A submitted run and its evaluations so far."""

    future: Future[_Evaluations]
    open: int = 0
    """Number of judged spans with evaluations that have not ended."""
    evaluations: list[Evaluation] = field(default_factory=list)


class BatchScorer:
    """Scores runs on a separate engine thread, until it is closed.

    Rules, sampling, timeouts, retries and concurrency apply as they do live, and scored runs are delivered to
    the configured destinations. Queues are unbounded, and nothing is written to OpenTelemetry. A conversation
    becomes idle by the end times of its runs. Evaluations that were made `earlier` are neither made nor
    delivered again.
    """

    def __init__(self, config: Config, earlier: EarlierScores | None = None) -> None:
        bounds = dict.fromkeys(("queue_size", "max_bytes", "max_conversations"), _UNBOUNDED)
        self.config = replace(config, limits=replace(config.limits, **bounds))
        self._earlier = earlier
        self.stopped: str | None = None
        """The error of the first budget that was used up, with earlier scores: then no more runs are read."""
        self._submitted: dict[str, _Submitted] = {}
        """By trace id and judged span."""
        self._of_conversations: dict[str, Evaluation] = {}
        """The newest revision of each, by evaluation id."""
        self._last_end = 0.0
        self._engine = Engine(
            self.config,
            Conventions(()),
            Attacher(None, None, None, None),
            deliver=self._deliver,
            known=None if earlier is None else earlier.outcome,
            queue_size=_FLUSH_EVERY * 8,
            clock=lambda: self._last_end,
        )

    def score(self, run: Run) -> Future[_Evaluations]:
        """Submit a run; its evaluations are in the order of the rules.

        A rule that does not apply to the run, or does not sample it, has no evaluation. A run with the same
        root must not be submitted while it is being scored.
        """
        future: Future[_Evaluations] = Future()
        future.set_running_or_notify_cancel()  # it cannot be cancelled any more
        self._engine.thread.call(lambda: self._take(run, future))
        return future

    def score_all(
        self,
        items: Iterable[tuple[_Item, Run]],
        at_once: int = _AT_ONCE,
        done: Callable[[], object] = lambda: None,
    ) -> Iterator[tuple[_Item, _Evaluations]]:
        """Score runs as they are read, `at_once` at a time; yield items in the order in which they finish."""
        running: dict[Future[_Evaluations], _Item] = {}

        def ended() -> Iterator[tuple[_Item, _Evaluations]]:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                done()
                yield running.pop(future), future.result()

        # Read no faster than scored: a file may be larger than the memory.
        for count, (item, run) in enumerate(items, 1):
            running[self.score(run)] = item
            if count % _FLUSH_EVERY == 0:
                self.flush()
            if len(running) >= at_once:
                yield from ended()
            if self.stopped:
                break
        while running:
            yield from ended()

    def end_conversations(self) -> _Evaluations:
        """Judge the conversations that are not idle yet; return the newest evaluations of all of them."""
        # Conversations that were not read completely are judged the next time.
        if not self.stopped and any(r.scope == "conversation" for r in self.config.rules):
            self._engine.flush(_FOREVER, ending=True)
        return tuple(self._of_conversations.values())

    def stats(self) -> Stats:
        return self._engine.stats()

    def destination_stats(self) -> dict[str, DestinationStats]:
        return dict(self._engine.destination_stats())

    def flush(self, timeout: float = 60.0) -> bool:
        """Deliver all scored runs; return True if all were accepted within `timeout` seconds."""
        return self._engine.run(lambda: self._engine.fan_out.force_flush(timeout), timeout + 1) is True

    def close(self, timeout: float = 60.0) -> None:
        """Drop what is not scored, deliver what is within `timeout` seconds, and end the thread."""
        self._engine.run(self._forget_conversations, timeout)
        self._engine.finish(time.monotonic() + timeout)
        self._engine.close(time.monotonic() + 1.0)

    # --- on the engine's thread ---

    async def _forget_conversations(self) -> None:
        """Leave the conversations that were not read completely to the next time."""
        self._engine.conversations.forget()

    def _take(self, run: Run, future: Future[_Evaluations]) -> None:
        submitted = _Submitted(future)
        # Conversations become idle by the time in the data, not by the time of reading it.
        self._last_end = max(self._last_end, (run.end_time or run.start_time) / 1e9)
        try:
            self._engine.tick()  # for conversations that are idle by then
            targets = self._engine.score(run)
        except Exception as error:
            future.set_exception(error)
            return
        for target in targets:
            if target.open:
                submitted.open += 1
                self._submitted[run.trace_id + target.run.root_span_id] = submitted
            else:
                submitted.evaluations += target.evaluations
        self._answer(submitted)

    def _deliver(self, scored: ScoredRun) -> None:
        made = tuple(e for e in scored.evaluations if self._is_new(e))
        if made:
            self._engine.fan_out.put(structs.replace(scored, evaluations=made))
        if scored.run.turns:
            for evaluation in scored.evaluations:
                newest = self._of_conversations.get(evaluation.evaluation_id)
                if newest is None or newest.revision < evaluation.revision:
                    self._of_conversations[evaluation.evaluation_id] = evaluation
            return
        # With scope `agent`, one run has several judged spans, each of which is delivered by itself.
        submitted = self._submitted.pop(scored.run.trace_id + scored.run.root_span_id, None)
        if submitted is not None:
            submitted.open -= 1
            submitted.evaluations += scored.evaluations
            self._answer(submitted)

    def _is_new(self, evaluation: Evaluation) -> bool:
        """Return False for an evaluation that was made earlier; and stop after one without a budget."""
        if self._earlier is None:
            return True
        outcome = evaluation.outcome
        if isinstance(outcome, ScorerFailure) and outcome.error_type == _BUDGET:
            self.stopped = self.stopped or f"a budget is used up: {outcome.message}"
        return (evaluation.evaluation_id, evaluation.revision) not in self._earlier.used

    def _answer(self, submitted: _Submitted) -> None:
        """Resolve the future when all judged spans are scored."""
        if not submitted.open:
            order = {rule.scorer_id: place for place, rule in enumerate(self.config.rules)}
            found = sorted(submitted.evaluations, key=lambda e: order[e.scorer_id])
            submitted.future.set_result(tuple(found))


class EarlierScores:
    """The evaluations in files of the jsonl destination.

    A conversation has one evaluation id; each state has its own judged span and revision.
    """

    def __init__(self, files: Iterable[str | os.PathLike[str]]) -> None:
        self._found: dict[tuple[str, str], tuple[int, Outcome, frozenset[str]]] = {}
        """Revision, outcome and the run's other spans, by evaluation id and judged span."""
        self._newest: dict[str, int] = {}
        """The highest revision, by evaluation id."""
        for path in files:
            for record in read_jsonl(path) if os.path.exists(path) else ():
                spans = frozenset(record.get("spans", ()))
                for evaluation in record.get("evaluations", ()):
                    self._add(evaluation, spans)
        self.used: set[tuple[str, int]] = set()
        """Ids and revisions that `outcome` has returned."""

    def _add(self, evaluation: Mapping[str, Any], spans: frozenset[str]) -> None:
        id, revision = evaluation["evaluation_id"], evaluation["revision"]
        place = id, evaluation["span_id"]
        if revision >= self._found.get(place, (0,))[0]:
            self._found[place] = revision, _outcome(evaluation), spans
        self._newest[id] = max(revision, self._newest.get(id, 0))

    def outcome(self, evaluation_id: str, run: Run) -> tuple[int, Outcome | None]:
        """Return an outcome that stands, with its revision; otherwise the next revision.

        Repeated are failures, unless a later state of the conversation was judged, since readers keep the
        newest revision; and scores of a run that a backend had only in part.
        """
        newest = self._newest.get(evaluation_id, 0)
        place = evaluation_id, run.root_span_id
        revision, outcome, spans = self._found.get(place, (0, None, frozenset()))
        grown = any(each.span_id not in spans for each in run.operations if each.span_id != run.root_span_id)
        fails = isinstance(outcome, ScorerFailure | Dropped)
        # Otherwise the failure was overtaken by a newer state, which readers see instead.
        if outcome is None or grown or (fails and revision == newest):
            return newest + 1, None
        self.used.add((evaluation_id, revision))
        return revision, outcome


def _outcome(evaluation: Mapping[str, Any]) -> Outcome:
    reason = str(evaluation.get("reason"))
    match evaluation["status"]:
        case "scored":
            explanation, label = evaluation.get("explanation"), evaluation.get("label")
            return Score(value=evaluation["value"], label=label, explanation=explanation)
        case "not_scored":
            return NotScored(reason=reason, explanation=evaluation.get("explanation"))
        case "failed":
            return ScorerFailure(error_type=reason, message=str(evaluation.get("message") or ""))
    return Dropped(reason=reason)
