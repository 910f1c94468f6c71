"""`run_evals`: a target answers the items of a data set, and scorers judge its runs."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from otel_evals._internal.config.loader import build_config
from otel_evals._internal.config.options import Config
from otel_evals._internal.deliver.record import plain
from otel_evals._internal.engine.event_loop import run
from otel_evals._internal.model import Run
from otel_evals._internal.offline.batch import BatchScorer
from otel_evals._internal.offline.progress_bar import bar
from otel_evals._internal.offline.results import (
    EvalsResult,
    Item,
    ItemResult,
    Requirement,
    check,
    gate,
    overall_status,
    read_items,
    threshold,
)
from otel_evals._internal.offline.span_recorder import SpanRecorder, recorder_for
from otel_evals._internal.offline.tally import kin_of, tally
from otel_evals._internal.scorers.kit.labels import run_of
from otel_evals._internal.scorers.kit.scorer import Scorer
from otel_evals._internal.util.calls import call, outcome_of
from otel_evals.errors import ConfigError


def run_evals(
    data: str | Path | Iterable[Any], target: Any, scorers: Sequence[Any], **options: Any
) -> EvalsResult:
    """Have a target answer every item of a data set, and score its runs; see `run_evals_async`.

    Blocks until all items are done. If an event loop is running, the work is done on another thread.
    """
    work = run_evals_async(data, target, scorers, **options)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run(work)
    with ThreadPoolExecutor(1, "otel-evals-run") as thread:
        return thread.submit(run, work).result()


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
    progress: bool | Callable[[ItemResult], object] = True,
    destinations: Sequence[Any] = (),
    tracer_provider: Any = None,
    logger_provider: Any = None,
) -> EvalsResult:
    """Have a target answer every item of a data set, and score its runs.

    The scored run is assembled from the target's spans, as in live scoring. A target without spans gets a run
    of its input and return value. A failing item or scorer does not affect the others.

    Args:
        data: items with `input` and optionally `ground_truth` and `metadata`; or the path of a JSONL file.
        target: a sync or async function, or an agent with `run` or `run_sync`; called with the input.
        scorers: scorers, `Rule`s, or mappings as in the YAML file.
        gates: further scorers, or ids of the given ones, that require a mean of 1 (0 if lower is better) and
            no failure.
        thresholds: bounds of the mean by scorer id: a number, `(min, max)` or a mapping of both.
        concurrency: number of items that are processed at once.
        timeout: seconds that the target may take per item; no limit by default.
        grace: seconds after the target's return in which open spans may still end.
        progress: True for a progress bar on terminals, False for none, or a function called with each result.
        destinations: destinations of scored runs, as in `configure`.
        tracer_provider: provider of the target's spans; the global one by default, created if there is none.
        logger_provider: provider of the target's log records; the global one by default.

    Raises:
        ConfigError: an argument is wrong; the target was not called.
    """
    known = [
        each for each in gates if isinstance(each, str) or (isinstance(each, Scorer) and each in scorers)
    ]
    further = [each for each in gates if each not in known]
    config = build_config([*scorers, *further], destinations)
    if not config.rules:
        raise ConfigError("scorers", "give at least one scorer or gate")
    for index, rule in enumerate(config.rules):
        if rule.scope == "conversation":
            problem = "items are single runs; `otel-evals score` judges the conversations of stored traces"
            raise ConfigError(f"scorers[{index}].scope", problem)
    if concurrency < 1:
        raise ConfigError("concurrency", f"must be at least 1, not {concurrency}")
    items, function = read_items(data), _callable_of(target)
    gated = {each if isinstance(each, str) else each.id for each in known}
    gated.update(rule.scorer_id for rule in config.rules[len(scorers) :])
    requirements = _requirements(config, gated, thresholds or {})
    recorder, turns = recorder_for(tracer_provider, logger_provider), asyncio.Semaphore(concurrency)
    batch = BatchScorer(config)
    try:
        with bar("evaluating", len(items), shown=progress is True) as advance:

            async def one(item: Item) -> ItemResult:
                async with turns:
                    result = await _answer(function, item, recorder, timeout, grace)
                    if result.run is not None:
                        scored = asyncio.wrap_future(batch.score(result.run))
                        result = replace(result, evaluations=await scored)
                advance()
                if callable(progress):
                    progress(result)
                return result

            results = await asyncio.gather(*map(one, items))
    finally:
        await asyncio.to_thread(batch.close)  # may wait for destinations
    kin = {result.run.trace_id: kin_of(result.run) for result in results if result.run}
    found = tally(config.rules, [e for result in results for e in result.evaluations], kin)
    tallies = {each.scorer_id: each for each in found}
    lost = sum(result.run is None for result in results)
    checked = tuple(check(each, tallies[each.scorer_id], lost) for each in requirements)
    return EvalsResult(
        items=tuple(results), scorers=tallies, requirements=checked, status=overall_status(checked)
    )


async def _answer(
    function: Callable[[Any], Any], item: Item, recorder: SpanRecorder, limit: float | None, grace: float
) -> ItemResult:
    """Call the target, and assemble its runs."""
    with recorder.record_context() as recording:
        start, clock = time.time_ns(), time.perf_counter()
        output = await outcome_of(lambda: call(function, item.input), limit)
        error = None
        if isinstance(output, BaseException):
            error, output = f"{type(output).__name__}: {output}".removesuffix(": "), None
        seconds = time.perf_counter() - clock
        await asyncio.to_thread(recording.wait, grace)
        runs = tuple(recording.runs())
        run = runs[-1] if runs else None
        if run is None and error is None:
            run = _run_without_spans(item.input, output, start)
        if run is not None:
            run = replace(run, ground_truth=item.ground_truth, trace_flags=run.trace_flags | 1)
        return ItemResult(item=item, output=output, error=error, run=run, runs=runs, duration=seconds)


def _callable_of(target: Any) -> Callable[[Any], Any]:
    # `run` first: agents of frameworks are callable for other purposes.
    for found in (getattr(target, "run", None), getattr(target, "run_sync", None), target):
        if callable(found):
            return found  # type: ignore[no-any-return]  # the target's type is unknown here
    problem = f"must be a function, or an agent with `run` or `run_sync`, not {type(target).__name__}"
    raise ConfigError("target", problem)


def _run_without_spans(value: Any, output: Any, start_time: int) -> Run:
    """Build the run of a target without spans, from its input and its answer."""
    if not isinstance(output, str | bytes | int | float | Mapping | list | tuple | BaseModel | None):
        for name in ("output", "final_output", "text", "content"):  # of an agent's result object
            if hasattr(output, name):
                output = getattr(output, name)
                break
    return replace(
        run_of({"input": plain(value), "output": plain(output)}),
        trace_id=secrets.token_hex(16),
        root_span_id=secrets.token_hex(8),
        start_time=start_time,
        end_time=time.time_ns(),
    )


def _requirements(config: Config, gated: Set[str], thresholds: Mapping[str, Any]) -> list[Requirement]:
    """Return the requirements of gates, by scorer id, and of thresholds."""
    directions = {rule.scorer_id: rule.facts.direction for rule in config.rules}
    unknown = sorted(gated - directions.keys())
    if unknown:
        raise ConfigError("gates", f"unknown id {unknown[0]!r}; known: {', '.join(sorted(directions))}")
    gates = [gate(name, direction) for name, direction in directions.items() if name in gated]
    return [*gates, *(threshold(name, bounds, directions) for name, bounds in thresholds.items())]
