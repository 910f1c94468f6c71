"""Calls targets, and makes the run of a target without spans."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from otel_evals._internal.deliver.record import plain
from otel_evals._internal.model import Run
from otel_evals._internal.offline.labels import run_of
from otel_evals.errors import ConfigError


def function_of(target: Any) -> Callable[[Any], Any]:
    """What to call with an item's input: an agent's `run` or `run_sync`, or the target itself.

    Raises:
        ConfigError: the target is neither.
    """
    for name in ("run", "run_sync"):
        method = getattr(target, name, None)
        if callable(method):
            return method  # type: ignore[no-any-return]  # the target's type is not known here
    if not callable(target):
        problem = f"must be a function, or an agent with `run` or `run_sync`, not {type(target).__name__}"
        raise ConfigError("target", problem)
    return target  # type: ignore[no-any-return]  # the target's type is not known here


def run_without_spans(value: Any, output: Any, start_time: int, end_time: int) -> Run:
    """The run of a target without spans: its input and its answer."""
    run = run_of({"input": plain(value), "output": plain(_answer(output))})
    return replace(
        run,
        trace_id=secrets.token_hex(16),
        root_span_id=secrets.token_hex(8),
        start_time=start_time,
        end_time=end_time,
    )


def _answer(output: Any) -> Any:
    """The answer in an agent's result object; other values are the answer themselves."""
    if output is None or isinstance(output, str | bytes | int | float | Mapping | list | tuple | BaseModel):
        return output
    for name in ("output", "final_output", "text", "content"):
        if hasattr(output, name):
            return getattr(output, name)
    return output
