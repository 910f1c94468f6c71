"""`run_evals`: a target answers the items of a data set, and scorers judge its runs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from otel_evals._internal.config.loader import build_config
from otel_evals._internal.config.options import Config
from otel_evals._internal.model import Run
from otel_evals._internal.offline.batch import BatchScorer
from otel_evals._internal.offline.data_sets import Item, read_items
from otel_evals._internal.offline.evaluation_results import EvalsResult, ItemResult
from otel_evals._internal.offline.progress_bar import bar
from otel_evals._internal.offline.requirements import Requirement, check, gate, overall_status, thresholds_of
from otel_evals._internal.offline.span_recorder import Recording, SpanRecorder, recorder_for
from otel_evals._internal.offline.tally import kin_of, tally
from otel_evals._internal.offline.targets import function_of, run_without_spans
from otel_evals._internal.pipeline.event_loop import run
from otel_evals._internal.scoring.scorer import Scorer
from otel_evals._internal.util.calls import call
from otel_evals.errors import ConfigError

Progress = bool | Callable[[ItemResult], object]


@dataclass(frozen=True)
class _Plan:
    """The validated arguments of `run_evals`."""

    items: Sequence[Item]
    function: Callable[[Any], Any]
    config: Config
    requirements: Sequence[Requirement]
    recorder: SpanRecorder
    concurrency: int
    timeout: float | None
    grace: float
    progress: Progress


def run_evals(
    data: str | Path | Iterable[Any], target: Any, scorers: Sequence[Any], **options: Any
) -> EvalsResult:
    """Have a target answer every item of a data set, and score its runs; see `run_evals_async`.

    Blocks until all items are done. If an event loop is running, the work is done on another thread.
    """
    work = run_evals_async(data, target, scorers, **options)
    return _on_a_thread(work) if _in_a_loop() else run(work)


async def run_evals_async(
    data: str | Path | Iterable[Any],
    target: Any,
    scorers: Sequence[Any],
    *,
    gates: Sequence[Any] = (),
    thresholds: Mapping[str, Any] | None = None,
    concurrency: int = 4,
    timeout: float | None = None,  # noqa: ASYNC109  # of each item, not of this call
    grace: float = 0.5,
    progress: Progress = True,
    destinations: Sequence[Any] = (),
    tracer_provider: Any = None,
    logger_provider: Any = None,
) -> EvalsResult:
    """Have a target answer every item of a data set, and score its runs.

    The run that is scored is assembled from the target's spans, as in live scoring; a target without spans
    gives a run of its input and its return value. A failing item or scorer does not affect the others.

    Args:
        data: items with `input` and optionally `ground_truth` and `metadata`; or the path of a JSONL file.
        target: a sync or async function, or an agent with `run` or `run_sync`; called with the input.
        scorers: scorers, `Rule`s, or mappings as in the YAML file.
        gates: further scorers, or ids of those given, whose mean must be 1 (0 where lower is better) without
            a failure.
        thresholds: bounds of the mean by scorer id: a number, `(min, max)` or `{"min": ..., "max": ...}`.
        concurrency: how many items are processed at once.
        timeout: seconds that the target may take for one item; no limit by default.
        grace: seconds after the target's return in which its open spans may still end.
        progress: True for a progress bar on terminals, False for none, or a function called with each result.
        destinations: where scored runs are delivered, as in `configure`.
        tracer_provider: whose spans are captured; the global one by default, created if there is none.
        logger_provider: whose log records are captured; the global one by default.

    Raises:
        ConfigError: an argument is wrong; the target was not called.
    """
    rules, gated = _with_gates(scorers, gates)
    config = build_config(rules, destinations)
    if not config.rules:
        raise ConfigError("scorers", "give at least one scorer or gate")
    for index, rule in enumerate(config.rules):
        if rule.scope == "conversation":
            problem = "items are single runs; `otel-evals score` judges the conversations of stored traces"
            raise ConfigError(f"scorers[{index}].scope", problem)
    if concurrency < 1:
        raise ConfigError("concurrency", f"must be at least 1, not {concurrency}")
    plan = _Plan(
        read_items(data),
        function_of(target),
        config,
        _requirements(config, gated, thresholds or {}),
        recorder_for(tracer_provider, logger_provider),
        concurrency,
        timeout,
        grace,
        progress,
    )
    return await _carry_out(plan)


async def _carry_out(plan: _Plan) -> EvalsResult:
    turns = asyncio.Semaphore(plan.concurrency)
    async with _batch_scorer(plan.config) as batch:
        with bar("evaluating", len(plan.items), shown=plan.progress is True) as advance:

            async def one(item: Item) -> ItemResult:
                async with turns:
                    result = await _judged(await _answered(plan, item), batch)
                advance()
                if callable(plan.progress):
                    plan.progress(result)
                return result

            results = await asyncio.gather(*(asyncio.create_task(one(item)) for item in plan.items))
    return _summed_up(plan, results)


@asynccontextmanager
async def _batch_scorer(config: Config) -> AsyncIterator[BatchScorer]:
    """A batch scorer that is closed on another thread, since that may wait for destinations."""
    batch = BatchScorer(config)
    try:
        yield batch
    finally:
        await asyncio.to_thread(batch.close)


async def _answered(plan: _Plan, item: Item) -> ItemResult:
    """Call the target, and assemble its runs."""
    with plan.recorder.record_context() as recording:
        start, clock = time.time_ns(), time.perf_counter()
        output, error = None, None
        try:
            output = await asyncio.wait_for(call(plan.function, item.input), plan.timeout)
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}".removesuffix(": ")
        seconds = time.perf_counter() - clock
        runs = await _recovered(recording, plan.grace)
        run = runs[-1] if runs else None
        if run is None and error is None:
            run = run_without_spans(item.input, output, start, time.time_ns())
        if run is not None:
            run = replace(run, ground_truth=item.ground_truth, trace_flags=run.trace_flags | 1)
        return ItemResult(item=item, output=output, error=error, run=run, runs=runs, duration=seconds)


async def _recovered(recording: Recording, grace: float) -> tuple[Run, ...]:
    await recording.settled(grace)
    return tuple(recording.runs())


async def _judged(result: ItemResult, batch: BatchScorer) -> ItemResult:
    if result.run is None:
        return result
    return replace(result, evaluations=await asyncio.wrap_future(batch.score(result.run)))


def _summed_up(plan: _Plan, results: Sequence[ItemResult]) -> EvalsResult:
    kin = {result.run.trace_id: kin_of(result.run) for result in results if result.run}
    found = tally(plan.config.rules, [e for result in results for e in result.evaluations], kin)
    tallies = {each.scorer_id: each for each in found}
    lost = sum(result.run is None for result in results)
    checked = tuple(check(each, tallies[each.scorer_id], lost) for each in plan.requirements)
    return EvalsResult(
        items=tuple(results), scorers=tallies, requirements=checked, status=overall_status(checked)
    )


def _with_gates(scorers: Sequence[Any], gates: Sequence[Any]) -> tuple[list[Any], set[str | int]]:
    """All scorers, and which of them are gates: by id, or by position."""
    rules = list(scorers)
    gated: set[str | int] = set()
    for each in gates:
        known = (
            each if isinstance(each, str) else each.id if isinstance(each, Scorer) and each in rules else None
        )
        if known is None:
            gated.add(len(rules))
            rules.append(each)
        else:
            gated.add(known)
    return rules, gated


def _requirements(config: Config, gated: set[str | int], thresholds: Mapping[str, Any]) -> list[Requirement]:
    directions = {rule.scorer.id: rule.scorer.direction for rule in config.rules}
    unknown = [name for name in gated if isinstance(name, str) and name not in directions]
    if unknown:
        raise ConfigError("gates", f"{unknown[0]!r} is no id of the scorers: {', '.join(sorted(directions))}")
    gates = [
        gate(rule.scorer.id, rule.scorer.direction)
        for place, rule in enumerate(config.rules)
        if place in gated or rule.scorer.id in gated
    ]
    return [*gates, *thresholds_of(thresholds, directions)]


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _on_a_thread(work: Any) -> EvalsResult:
    ended: list[EvalsResult | BaseException] = []

    def to_the_end() -> None:
        try:
            ended.append(run(work))
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=to_the_end, name="otel-evals-run")
    thread.start()
    thread.join()
    if isinstance(ended[0], BaseException):
        raise ended[0]
    return ended[0]
