"""`otel-evals runs`: the runs that OTLP files hold."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from otel_evals.assembly import find_runs
from otel_evals.assembly.scattered import join_scattered
from otel_evals.dialect import load_dialects
from otel_evals.model import Run
from otel_evals.otlp import read_traces

__all__ = ["run_as_json", "runs"]


def runs(
    files: Annotated[list[str], typer.Argument(help="OTLP files: JSON, JSON lines or protobuf; - is stdin.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per run and line.")] = False,
) -> None:
    """Print the runs that OTLP files hold: a tree for people, JSON lines for programs."""
    for run in _find(files):
        print(json.dumps(run_as_json(run), ensure_ascii=False, default=str))


def _find(files: list[str]) -> Iterator[Run]:
    dialects = load_dialects()
    return join_scattered(run for trace in read_traces(files) for run in find_runs(trace, dialects))


def run_as_json(run: Run) -> dict[str, Any]:
    """A run as one JSON object, without its operations."""
    return {
        "trace_id": run.trace_id,
        "root_span_id": run.root_span_id,
        "root_kind": run.root_kind,
        "agent_name": run.agent_name,
        "conversation_id": run.conversation_id,
        "user_id": run.user_id,
        "input": run.input,
        "output": run.output,
        "error": run.error,
        "tool_calls": [
            {
                "id": call.id,
                "name": call.name,
                "arguments": call.arguments,
                "result": call.result,
                "error": call.error,
                "status": call.status,
                "span_id": call.span_id,
                "source": call.source,
            }
            for call in run.tool_calls
        ],
        "documents": [{"id": d.id, "content": d.content, "score": d.score} for d in run.documents],
        "models": list(run.models),
        "usage": {"input_tokens": run.usage.input_tokens, "output_tokens": run.usage.output_tokens},
        "availability": dict(run.availability),
        "dialect": run.dialect,
    }


if __name__ == "__main__":
    typer.run(runs)
