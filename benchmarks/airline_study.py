"""Which code-only scorers tell good conversations from bad ones? A study on real traffic with known outcomes.

    OTEL_EVALS_TRAFFIC=FOLDER python benchmarks/airline_study.py [--write]

FOLDER holds airline.jsonl: conversations of a GPT-4o agent from tau-bench's airline domain, each with its
reward (1: the database ended in the right state). Prints the table of docs/airline_study.md, or puts it
there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from otel_evals import scorers
from otel_evals.model import Direction, Message, OperationKind, Part, Run, Score, ToolCall
from otel_evals.scorers import FunctionScorer

PAGE = Path(__file__).parent.parent / "docs" / "airline_study.md"
RESAMPLES = 2000
CHANGING = ("book", "cancel", "update", "send")
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->"


@dataclass(frozen=True)
class Conversation:
    """One conversation: its runs, one for each answer, and one run of all."""

    task: int
    good: bool
    turns: tuple[Run, ...]
    whole: Run
    solution: tuple[dict[str, Any], ...]


# --- reading ---


def load(path: Path) -> list[Conversation]:
    first, *rows = (json.loads(line) for line in path.read_text().splitlines())
    return [conversation(row, first["system"]) for row in rows]


def conversation(row: Mapping[str, Any], system: str) -> Conversation:
    messages = row["messages"]
    turns = tuple(run(messages[:start], messages[start:end], system) for start, end in spans(messages))
    return Conversation(
        task=row["task"],
        good=row["reward"] == 1.0,
        turns=turns,
        whole=run([], messages, system),
        solution=tuple(row["expected_actions"]),
    )


def spans(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, int]]:
    """From each user message up to the answer before the next one."""
    starts = [i for i, m in enumerate(messages) if m["role"] == "user"]
    for start, end in zip(starts, [*starts[1:], len(messages)], strict=True):
        if any(m["role"] == "assistant" and m.get("content") for m in messages[start:end]):
            yield start, end


def run(before: Sequence[Any], now: Sequence[Any], system: str) -> Run:
    answers = [m["content"] for m in now if m["role"] == "assistant" and m.get("content")]
    return Run(
        trace_id="0" * 32,
        root_span_id="0" * 16,
        root_kind=OperationKind.AGENT,
        input_messages=tuple(message(m) for m in now if m["role"] == "user"),
        history=tuple(message(m) for m in before),
        system_instructions=system,
        output=answers[-1] if answers else None,
        tool_calls=tuple(tool_calls(now)),
    )


def message(m: Mapping[str, Any]) -> Message:
    if m["role"] == "tool":
        part = Part(kind="tool_result", data=m["content"], name=m.get("name"), tool_call_id=m["tool_call_id"])
    else:
        part = Part(kind="text", text=m.get("content") or "")
    return Message(role=m["role"], parts=(part,))


def tool_calls(messages: Sequence[Mapping[str, Any]]) -> Iterator[ToolCall]:
    results = {m["tool_call_id"]: m["content"] for m in messages if m["role"] == "tool"}
    for call in (call for m in messages for call in m.get("tool_calls") or ()):
        result = results.get(call["id"])
        failed = result is not None and result.startswith("Error")
        yield ToolCall(
            name=call["function"]["name"],
            id=call["id"],
            arguments=json.loads(call["function"]["arguments"]),
            result=None if failed else result,
            error=result if failed else None,
            status="error" if failed else "ok",
        )


# --- scoring ---

OF_ANSWERS = (
    scorers.answered(),
    scorers.completeness(),
    scorers.content_similarity(),
    scorers.grounded_in_tools(),
    scorers.keyword_coverage(),
    scorers.no_secrets(),
    scorers.same_language(),
    scorers.textual_difference(),
    scorers.tone_consistency(),
)
OF_CONVERSATIONS = (
    scorers.tool_error_rate(),
    scorers.unrecovered_tool_errors(),
    scorers.repeated_calls(),
    scorers.within_budget(max_tool_calls=5),
)


def measures(c: Conversation) -> Iterator[tuple[str, str, float | None]]:
    """Name, judged subject, and the score turned so that higher is better."""
    for scorer in OF_ANSWERS:
        values = [value for turn in c.turns if (value := score(scorer, turn)) is not None]
        yield scorer.id, "mean of answers", fmean(values) if values else None
        yield scorer.id, "worst answer", min(values) if values else None
    for scorer in OF_CONVERSATIONS:
        yield scorer.id, "conversation", score(scorer, c.whole)
    # These two know the right solution, which live traffic lacks: they give the upper bound.
    solution = [a for a in c.solution if a["name"].startswith(CHANGING)]
    known = [{"name": a["name"], "arguments": a["arguments"]} for a in solution]
    names = [action["name"] for action in solution]
    by_name = scorers.trajectory_accuracy(expected=names, ordering="unordered")
    by_arguments = scorers.trajectory_accuracy(expected=known, ordering="unordered")
    yield "trajectory_accuracy", "conversation, right tools known", score(by_name, acting(c.whole))
    yield "trajectory_accuracy", "conversation, right calls known", score(by_arguments, acting(c.whole))


def acting(whole: Run) -> Run:
    """A run of the calls that change something: only these are part of a solution."""
    calls = tuple(call for call in whole.tool_calls if call.name.startswith(CHANGING))
    return Run(trace_id="", root_span_id="", root_kind=OperationKind.AGENT, tool_calls=calls)


def score(scorer: FunctionScorer, judged: Run) -> float | None:
    outcome = asyncio.run(scorer.score(judged))
    if not isinstance(outcome, Score):
        return None
    return outcome.value if scorer.direction is Direction.HIGHER else -outcome.value


# --- statistics ---


def auc(good: Sequence[float], bad: Sequence[float]) -> float:
    """Chance that a good conversation scores above a bad one; ties count half."""
    wins = sum((g > b) + 0.5 * (g == b) for g in good for b in bad)
    return wins / (len(good) * len(bad))


def interval(rows: Sequence[tuple[int, bool, float]]) -> tuple[float, float]:
    """95% percentile bootstrap of the AUC; tasks are drawn, for trials of one task resemble each other."""
    rng, by_task = random.Random(20261121), defaultdict(list)
    for task, good, value in rows:
        by_task[task].append((good, value))
    tasks, found = list(by_task.values()), []
    while len(found) < RESAMPLES:
        drawn = [row for task in rng.choices(tasks, k=len(tasks)) for row in task]
        sides = [[value for good, value in drawn if good is side] for side in (True, False)]
        if all(sides):
            found.append(auc(*sides))
    found.sort()
    return found[int(0.025 * RESAMPLES)], found[int(0.975 * RESAMPLES)]


def table(conversations: Sequence[Conversation]) -> str:
    rows: dict[tuple[str, str], list[tuple[int, bool, float]]] = defaultdict(list)
    for c in conversations:
        for name, unit, value in measures(c):
            if value is not None:
                rows[name, unit].append((c.task, c.good, value))
    lines = [
        "| scorer | judged | scored | mean, good | mean, bad | AUC | 95% interval |",
        "|---|---|--:|--:|--:|--:|---|",
    ]
    return "\n".join([*lines, *(line(name, unit, found) for (name, unit), found in rows.items())]) + "\n"


def line(name: str, unit: str, rows: Sequence[tuple[int, bool, float]]) -> str:
    good, bad = ([value for _, is_good, value in rows if is_good is side] for side in (True, False))
    low, high = interval(rows)
    apart = "**" if low > 0.5 or high < 0.5 else ""
    numbers = (
        f"{len(rows)} | {abs(fmean(good)):.3f} | {abs(fmean(bad)):.3f} | {apart}{auc(good, bad):.2f}{apart}"
    )
    return f"| `{name}` | {unit} | {numbers} | {low:.2f} to {high:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into docs/airline_study.md")
    options = parser.parse_args()
    conversations = load(Path(os.environ["OTEL_EVALS_TRAFFIC"]) / "airline.jsonl")
    found = table(conversations)
    good = sum(c.good for c in conversations)
    print(
        f"{len(conversations)} conversations, {good} good, {sum(len(c.turns) for c in conversations)} answers"
    )
    print(found)
    if options.write:
        page = PAGE.read_text()
        PAGE.write_text(
            page[: page.index(BEGIN) + len(BEGIN)] + "\n" + found + "\n" + page[page.index(END) :]
        )


if __name__ == "__main__":
    main()
