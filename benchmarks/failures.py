"""Which step made an agent fail? Signals in code, and judges, against the steps that people marked.

    python benchmarks/failures.py FOLDER [--model MODEL] [--option NAME=VALUE] [--limit N] [--write]

FOLDER holds checkouts of microsoft/AgentRx and ag2ai/Agents_Failure_Attribution (Who&When), each under its
own name. With `--model`, the scorers `failure_step` and, for runs with tool calls, `trajectory_judge` fill
the last columns. `--option` sets options of the judge (`api_base=URL`). A signal is right if the first step
it points at is the marked one; a run that a judge does not score counts as wrong.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import airline_study
import anyio
import yaml
from labelled import put, rate, retail
from labelled_answers import Example

from otel_evals.model import Message, Operation, OperationKind, Part, Run, Score, SpanRecord, ToolCall
from otel_evals.scorers import Scorer, failure_step, grounded_in_tools, trajectory_judge

FAILED_OUTPUT = re.compile(r"exitcode: [1-9]|Traceback \(most recent call last\)|\b\w*Error:")
SIGNALS = ("unsupported fact", "failed call", "repeated call", "last step")
JUDGES = ("`failure_step`", "`trajectory_judge`")
CATEGORIES = {
    "instruction adherence failure": "instruction_not_followed",
    "instruction/plan adherence failure": "instruction_not_followed",
    "invention of new information": "information_invented",
    "invalid invocation": "call_invalid",
    "misinterpretation of tool output": "result_misread",
    "intent plan misalignment": "goal_missed",
    "underspecified user intent": "request_unclear",
    "intent not supported": "request_unsupported",
    "guardrails triggered": "guardrail_triggered",
    "system failure": "system_failed",
}
"""AgentRx' categories, as `failure_step` names them."""
Pointed = dict[str, int | None]


@dataclass
class Failure:
    """A failed run, with the position of the step that people marked."""

    name: str
    run: Run
    agents: Sequence[str]
    """Who took each step; empty if the labels name no agents."""
    step: int
    pointed: Pointed
    agent: str | None = None
    category: str | None = None
    guessed: str | None = None
    """The judge's category."""
    calls: Sequence[int] = field(default_factory=tuple)
    """The steps of the run's tool calls."""
    id: str = ""
    """Of the run in its set, by which the sets are halved."""


# --- reading ---


def failures(folder: Path) -> Iterator[Failure]:
    yield from of_retail(folder)
    yield from of_magentic(folder)
    yield from of_who_and_when(folder)


def truths(folder: Path, name: str) -> dict[Any, Mapping[str, Any]]:
    """The root cause of each run; one without a marked root cause is left out."""
    rows = json.loads((folder / f"AgentRx/data/ground_truth/{name}_ground_truth.json").read_text())
    return {
        row["trajectory_id"]: found
        for row in rows
        for found in row["failures"]
        if found["failure_id"] == row["root_cause"]["failure_id"]
    }


def of_retail(folder: Path) -> Iterator[Failure]:
    truth = truths(folder, "tau")
    for row, answers in retail(folder, "failed"):
        marked = truth[row["task_id"]]
        messages = row["traj"]
        calls = [m["index"] for m in messages for _ in m.get("tool_calls") or ()]
        yield Failure(
            "AgentRx, retail",
            conversation(messages),
            (),
            marked["step_number"],
            in_conversation(messages, answers),
            category=CATEGORIES[marked["failure_category"].lower()],
            calls=calls,
            id=str(row["task_id"]),
        )


def outcomes(folder: Path) -> Iterator[Example]:
    """Retail conversations of AgentRx; one is right if its data base ends as its task wanted."""
    for row, _ in retail(folder):
        kept = {"task": row["task_id"], "trial": row["trial"], "right": row["reward"] == 1.0}
        yield Example("TauRetail", kept, conversation(row["traj"]))


def trajectories(folder: Path) -> Iterator[Example]:
    """The same conversations as runs of an agent with the tools that any of them calls."""
    rows = [row for row, _ in retail(folder)]
    called = [call for row in rows for call in airline_study.tool_calls(row["traj"])]
    tools = [{"name": name} for name in sorted({call.name for call in called})]
    for row in rows:
        messages = row["traj"]
        said = [m["content"] for m in messages if m["role"] == "assistant" and m["content"]]
        agent = operation(0, OperationKind.AGENT, "agent", tool_definitions=tools)
        run = run_of(
            [agent],
            root_span_id=agent.span_id,
            tool_calls=tuple(airline_study.tool_calls(messages)),
            input_messages=user_words(messages),
            output=said[-1],
        )
        kept = {"task": row["task_id"], "trial": row["trial"], "right": row["reward"] == 1.0}
        yield Example("TauRetailCalls", kept, run)


def of_magentic(folder: Path) -> Iterator[Failure]:
    """Steps are numbered from 1, and agents in any case."""
    for id, marked in truths(folder, "magentic_one").items():
        history = json.loads((folder / f"AgentRx/data/magentic_dataset/{id}.json").read_text())
        agents = [agent_of(message).lower() for message in history]
        yield Failure(
            "AgentRx, Magentic-One",
            log(history),
            agents,
            marked["step_number"] - 1,
            in_log(history),
            marked["failed_agent"].lower(),
            CATEGORIES[marked["failure_category"].lower()],
            id=str(id),
        )


def of_who_and_when(folder: Path) -> Iterator[Failure]:
    for path in sorted((folder / "Agents_Failure_Attribution/Who&When").glob("*/*.json")):
        case = json.loads(path.read_text())
        history = case["history"]
        yield Failure(
            f"Who&When, {path.parent.name.lower()}",
            log(history, case["question"]),
            [*map(agent_of, history)],
            int(case["mistake_step"]),
            in_log(history),
            case["mistake_agent"],
            id=path.name,
        )


def agent_of(message: Mapping[str, Any]) -> str:
    return message.get("name") or str(message["role"]).partition(" (")[0]


def log(history: Sequence[Mapping[str, Any]], question: str = "") -> Run:
    """A run with one operation for each message."""
    steps = [
        operation(n, OperationKind.AGENT, agent_of(m), output_messages=(text("assistant", m["content"]),))
        for n, m in enumerate(history)
    ]
    return run_of(steps, input_messages=(text("user", question),) if question else ())


def conversation(messages: Sequence[Mapping[str, Any]]) -> Run:
    results = {call.id: call for call in airline_study.tool_calls(messages)}
    run = run_of(operations(messages, results))
    return run_of(run.operations, tool_calls=tuple(results.values()), input_messages=user_words(messages))


def operations(
    messages: Sequence[Mapping[str, Any]], results: Mapping[str | None, ToolCall]
) -> Iterator[Operation]:
    for m in messages:
        number, role = m["index"], m["role"]
        if role == "tool":
            call = results[m["tool_call_id"]]
            yield operation(number, OperationKind.TOOL, call.name, tool_call=call)
        else:
            asked = [c["function"] for c in m.get("tool_calls") or ()]
            parts = [Part(kind="tool_call", name=f["name"], data=f["arguments"]) for f in asked]
            said = Message(role=role, parts=(Part(kind="text", text=m.get("content") or ""), *parts))
            yield operation(number, OperationKind.AGENT, role, output_messages=(said,))


def user_words(messages: Sequence[Mapping[str, Any]]) -> tuple[Message, ...]:
    return tuple(text("user", m["content"]) for m in messages if m["role"] == "user")


def text(role: str, content: str) -> Message:
    return Message(role=role, parts=(Part(kind="text", text=content),))


def operation(number: int, kind: OperationKind, name: str, **fields: Any) -> Operation:
    span = SpanRecord(trace_id="1" * 32, span_id=f"{number:016x}", start_time=number)
    return Operation(span=span, kind=kind, convention="labels", name=name, **fields)


def run_of(steps: Iterable[Operation], *, root_span_id: str = "f" * 16, **fields: Any) -> Run:
    kind = OperationKind.AGENT
    return Run(
        trace_id="1" * 32, root_span_id=root_span_id, root_kind=kind, operations=tuple(steps), **fields
    )


# --- signals ---


def in_conversation(messages: Sequence[dict[str, Any]], answers: Sequence[tuple[int, Run]]) -> Pointed:
    scorer, seen = grounded_in_tools(), set()
    unsupported = (n for n, run in answers if isinstance(o := scorer(run), Score) and o.value < 1)
    failed = repeated = None
    for message in messages:
        for call in message.get("tool_calls") or ():
            function = call["function"]["name"], call["function"]["arguments"]
            repeated = repeated or (message["index"] if function in seen else None)
            seen.add(function)
        if failed is None and message["role"] == "tool" and message["content"].startswith("Error"):
            failed = message["index"] - 1
    last = max(n for n, _ in answers)
    found = (next(unsupported, None), failed, repeated, last)
    return dict(zip(SIGNALS, found, strict=True))


def in_log(messages: Sequence[dict[str, Any]]) -> Pointed:
    """A log has no tool calls: the step before an output with an error failed."""
    outputs = (n for n, m in enumerate(messages) if n and FAILED_OUTPUT.search(m["content"]))
    failed = next(outputs, None)
    return {"failed call": failed - 1 if failed else None, "last step": len(messages) - 1}


async def judge_all(cases: Sequence[Failure], judge: Any, at_once: int) -> None:
    turns = anyio.Semaphore(at_once)
    ended = Counter[str]()

    async def one(case: Failure) -> None:
        async with turns:
            found = await outcome(failure_step(judge, assume_failed=True), case.run)
            named = found.span_id if isinstance(found, Score) else None
            case.pointed[JUDGES[0]] = int(named, 16) if named else None
            case.guessed = found.label if isinstance(found, Score) else None
            ended[getattr(found, "reason", type(found).__name__)] += 1
            if case.calls:
                judged = await outcome(trajectory_judge(judge), case.run)
                case.pointed[JUDGES[1]] = first_needless(judged, case.calls)

    async with anyio.create_task_group() as group:
        for case in cases:
            group.start_soon(one, case)
    print(dict(ended))


async def outcome(scorer: Scorer, run: Run) -> Any:
    try:
        return await scorer.score(run)
    except Exception as error:
        return error.__cause__ or error


def first_needless(judged: Any, calls: Sequence[int]) -> int | None:
    """The first call that was needless or out of order."""
    if not isinstance(judged, Score):
        return None
    verdicts = next(step.result for step in judged.steps if step.name == "analyze")["steps"]
    wrong = (not (v["necessary"] and v["in_order"]) for v in verdicts)
    return next((calls[n] for n, is_wrong in enumerate(wrong) if is_wrong), None)


# --- the table ---


def table(cases: Sequence[Failure], model: str | None) -> str:
    columns = (*SIGNALS, *JUDGES) if model else SIGNALS
    heads = [*SIGNALS, *(f"{name}, {model}" for name in JUDGES)] if model else [*SIGNALS, "your model"]
    by_name: defaultdict[str, list[Failure]] = defaultdict(list)
    for case in cases:
        by_name[case.name].append(case)
    lines = [f"| labels | failures | any step | {' | '.join(heads)} |", "|---|" + "--:|" * (len(heads) + 2)]
    for name, group in by_name.items():
        hits = [{s: n == case.step for s, n in case.pointed.items()} for case in group]
        chance = fmean(1 / len(case.run.operations) for case in group)
        lines.append(row(f"{name}: step", chance, hits, columns, empty=not model))
        if group[0].agents:
            agents = [
                {s: n is not None and case.agents[n] == case.agent for s, n in case.pointed.items()}
                for case in group
            ]
            chance = fmean(case.agents.count(case.agent or "") / len(case.agents) for case in group)
            lines.append(row(f"{name}: agent", chance, agents, columns, empty=not model))
        if group[0].category:
            categories = [{JUDGES[0]: case.guessed == case.category} if model else {} for case in group]
            chance = 1 / len(set(CATEGORIES.values()))
            lines.append(row(f"{name}: category", chance, categories, columns, empty=not model))
    return "\n".join(lines)


def row(
    name: str, chance: float, hits: Sequence[Mapping[str, bool]], columns: Sequence[str], *, empty: bool
) -> str:
    cells = [
        rate((str(i), hit[column]) for i, hit in enumerate(hits)) if column in hits[0] else "-"
        for column in columns
    ]
    return f"| {name} | {len(hits)} | {chance:.1%} | {' | '.join(cells)} |{' |' if empty else ''}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--limit", type=int, help="failures of each set")
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--write", action="store_true", help="put the table into docs/grounded_study.md")
    options = parser.parse_args()
    taken: Counter[str] = Counter()
    cases = []
    for case in failures(options.folder):
        taken[case.name] += 1
        if options.limit is None or taken[case.name] <= options.limit:
            cases.append(case)
    if options.model:
        given = dict(option.split("=", 1) for option in options.option)
        judge = {
            "model": options.model,
            **{k: yaml.safe_load(v) for k, v in given.items()},
        }
        anyio.run(judge_all, cases, judge, options.at_once)
    made = table(cases, options.model)
    print(made)
    if options.write:
        put("failures", made)


if __name__ == "__main__":
    main()
