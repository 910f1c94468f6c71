"""The demo, written as a tutorial: score a support agent's traffic while customers talk to it.

In this order: a custom scorer, the rules, the call of `otel_evals.configure`, and the running agent.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from shlex import quote

import otel_evals
from otel_evals import NotScored, Rule, Run, Score, sampling, scorer
from otel_evals.destinations import InMemoryDestination
from otel_evals.scorers import grounded_in_tools, tool_call_accuracy, tool_error_rate


@scorer
def owns_up(run: Run) -> Score | NotScored:
    """Return 1 if the answer admits that a tool failed, 0 if it does not."""
    failed = [call.name for call in run.tool_calls if call.status == "error"]
    if not failed:
        return NotScored(reason="no_tool_failed")
    if re.search(r"sorry|unfortunately|unable|did not work|(can|could)(no|n'| no)t", run.output or "", re.I):
        return Score(value=1, label="admitted")
    why = f"{failed[-1]} failed and the answer is silent about it"
    return Score(value=0, label="passed over", explanation=why)


HANDBOOK = {
    r"cancel|call off": "cancel_order",
    r"return|send .*back": "check_return",
    r"parcel|arrive|carrier": "track_shipment",
}


def handbook(run: Run) -> str | None:
    """Return the tool that the shop's handbook prescribes for a question."""
    return next((tool for words, tool in HANDBOOK.items() if re.search(words, run.input or "", re.I)), None)


RULES = (
    Rule(grounded_in_tools()),
    Rule(tool_call_accuracy(expected_tool=handbook)),
    Rule(owns_up),
    Rule(tool_error_rate(), sample=sampling.ratio(0.5)),
)
"""Every run is scored, half of them for the share of failed calls."""
FALLBACK = "I would like to check this with a colleague first. We will write to you today."


def demo(
    runs: int,
    seed: int,
    out: Path,
    to: Sequence[str],
    *,
    guard: bool = False,
) -> Path:
    """Score live traffic, print the scores next to the planted faults, and return the file with the scores.

    With `guard`, customers receive a fallback instead of answers with unsupported facts. `to` has the
    backends that receive scores, NAME or NAME=URL; the first one receives spans too.
    """
    from pydantic_ai import Agent
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from otel_evals.sdk.commands import backend_of_demo, send_spans_to
    from otel_evals_monitor._internal.demo.agent import Truth, converse, plan
    from otel_evals_monitor._internal.demo.report import print_links, print_report

    out.mkdir(parents=True, exist_ok=True)
    scores, truth = out / "scores.jsonl", out / "truth.jsonl"
    scores.unlink(missing_ok=True)
    seen = InMemoryDestination()
    destinations: list[object] = [seen, {"jsonl": {"path": scores}}]
    os.environ.setdefault("OTEL_SERVICE_NAME", "otel-evals-demo")
    destinations += [backend_of_demo(place) for place in to]
    if to:
        os.environ.setdefault("OTEL_RESOURCE_ATTRIBUTES", "openinference.project.name=otel-evals-demo")
        os.environ |= send_spans_to(destinations[2])

    # This call and the agent framework's own instrumentation are enough to score an agent.
    pipeline = otel_evals.configure(rules=RULES, destinations=destinations)
    Agent.instrument_all()

    # This call keeps answers with facts that no tool returned from customers.
    grounded = otel_evals.guard(grounded_in_tools(), fallback=FALLBACK, deadline=2)

    truths: list[Truth] = []
    with Progress(
        TextColumn("runs answered"), BarColumn(40), MofNCompleteColumn(), TimeElapsedColumn()
    ) as bar:
        answered = bar.add_task("", total=runs)

        def record(truth: Truth) -> None:
            truths.append(truth)
            bar.advance(answered)

        asyncio.run(converse(*plan(runs, seed), record, guarded=grounded if guard else None))
    pipeline.force_flush(timeout_millis=600_000)
    truth.write_text("".join(json.dumps(asdict(t)) + "\n" for t in truths), encoding="utf-8")
    otel_evals.force_flush()
    print_report(seen.runs, truths, pipeline, [scores, truth])
    print_links(seen.runs, destinations[2:], pipeline)
    otel_evals.shutdown()
    return scores


def show_history(out: Path, scores: Path, seed: int, *, serve_page: bool, port: int, browser: bool) -> None:
    """Write two days of history, and serve the page on it or print the command for it."""
    from otel_evals.sdk.util import this_command
    from otel_evals_monitor._internal.demo.history import write_history

    store = out / "results.db"
    write_history(store, scores, seed=seed, now=time.time())
    print("\nTwo days of made-up history, with an alarm to find:")
    if not serve_page:
        print(f"    {this_command()} monitor {quote(str(store))} --floor grounded_in_tools=0.9")
        return
    from otel_evals_monitor._internal.alarms.limits import AlarmLimits
    from otel_evals_monitor._internal.page.app import serve
    from otel_evals_monitor._internal.store.database import Database

    serve(Database(store), AlarmLimits(floors={"grounded_in_tools": 0.9}), port=port, browser=browser)
