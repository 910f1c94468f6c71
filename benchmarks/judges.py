"""Judge scorers, and other products' evaluators, against labels: same items, same model.

    python benchmarks/judges.py ask FOLDER --api-base URL [--model NAME] [--half development] [--n 40]
        [--offset 0] [--sets FaithBench,AgentRxRetail] [--only hallucination,phoenix_faithfulness]
    python benchmarks/judges.py table [--prices 0.25,2.00] [--write]

`ask` puts the items of the sets in FOLDER (labelled_answers.py names them) to each evaluator with any
OpenAI-compatible server, and writes verdicts to benchmarks/verdicts/: digests of items and questions,
verdicts and counts of tokens, and no text. Evaluators of arize-phoenix-evals and deepeval run if these are
installed next to this package's extra `text` (with `openai<3`). `table` makes the tables from the recorded
verdicts; `--write` puts them into docs/judge_study.md. Prices are dollars per million tokens.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import failures
import judge_rivals
import labelled
from labelled_answers import LOADERS, Example, digest, drawn

from otel_evals import scorers as built_in
from otel_evals.judges import OpenAICompatibleJudge
from otel_evals.model import Score, StepRecord
from otel_evals.scorers import Scorer

VERDICTS = Path(__file__).with_name("verdicts")
PAGE = Path(__file__).parent.parent / "docs" / "judge_study.md"
Row = dict[str, Any]
QUESTION = "Does everything that the answer states stand in the retrieved documents, in whatever words?"
CRITERION = "Everything that the answer states stands in the retrieved documents, in whatever words."
FAILURES = {
    "AgentRxRetail": "AgentRx, retail",
    "AgentRxMagentic": "AgentRx, Magentic-One",
    "WhoWhen": "Who&When, algorithm-generated",
    "WhoWhenByHand": "Who&When, hand-crafted",
}
"""Sets of failed runs, by their names in failures.py."""
LOWER = ("hallucination", "toxicity", "bias")
"""Scorers whose alarm is any score above 0; for others it is any score below 1."""
DECIDING = {
    "summarization": {"contradicted", "absent"},
    "prompt_alignment": {"unmet"},
    "context_relevance": {"medium", "low", "none"},
    "answer_similarity": {"partial", "missing"},
    "factuality": {"narrower", "contradicts"},
}
"""Scorers whose value weighs more than the label is about (such as main points that a summary lacks), with
the labels or verdicts that are an alarm instead."""
SAMPLES = 2_000
SEVERAL = 3
"""Evaluators that an item needs for the table of labels that none of them agrees with."""


def scorers(example: Example, judge: Any) -> Iterator[Scorer]:  # noqa: C901  # a case for each set
    """Yield the scorers that an example's label is about."""
    match example.name:
        case "FaithBench" | "SummEdits" | "BEGIN":
            yield built_in.hallucination(judge)
            yield built_in.faithfulness(judge)
            yield built_in.classifier(judge, question=QUESTION, classes={"yes": 1.0, "no": 0.0})
            yield built_in.rubric(judge, criteria=[CRITERION])
            yield built_in.grounded_in_tools()
        case "QAGS":
            yield built_in.hallucination(judge)
            yield built_in.summarization(judge, source=example.row["source"])
        case "EVOUNA":
            yield built_in.factuality(judge)
            yield built_in.answer_similarity(judge)
        case "FED":
            yield built_in.multi_turn_judge(judge, criterion=example.row["criterion"])
        case "HateCheck":
            yield built_in.toxicity(judge)
            yield built_in.bias(judge)
        case "BBQ":
            yield built_in.bias(judge)
        case "WikiQA":
            yield built_in.answer_relevancy(judge)
        case "WikiQAPassages":
            yield built_in.context_precision(judge)
            yield built_in.context_relevance(judge)
        case "IFEval":
            yield built_in.prompt_alignment(judge, mode="user")
        case "When2Call":
            yield built_in.tool_call_judge(judge, available_tools=example.tools)
        case "TauRetail":
            yield built_in.failure_step(judge)
        case "TauRetailCalls":
            yield built_in.trajectory_judge(judge)


# --- asking ---


async def ask(options: argparse.Namespace) -> None:
    judge = OpenAICompatibleJudge(
        options.model,
        api_base=options.api_base,
        api_key=os.environ.get("OPENAI_API_KEY", "none"),
        timeout=options.timeout,
        max_tokens=4_000,
        structured_output="json_schema",
    )
    turns, rows = asyncio.Semaphore(options.at_once), list[Row]()

    async def one(name: str, id: str, judged: Callable[[], Awaitable[Row]]) -> None:
        async with turns:
            row = await judged()
        rows.append({"set": name, "half": options.half, "scorer": id, "model": options.name, **row})
        keep(rows)

    wanted = options.only.split(",") if options.only else None
    jobs = [
        one(name, id, judged)
        for name in options.sets.split(",")
        for id, judged in evaluations(options, name, judge)
        if wanted is None or id in wanted
    ]
    judge_rivals.load()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(options.at_once))
    print(f"{len(jobs)} evaluations", flush=True)
    await asyncio.gather(*jobs)
    print(table(rows, options.prices))


def evaluations(
    options: argparse.Namespace, name: str, judge: Any
) -> Iterator[tuple[str, Callable[[], Awaitable[Row]]]]:
    """Yield the evaluators of a set's items, each with a function that asks it about one."""
    for example in examples(options, name):
        for scorer in scorers(example, judge):
            yield scorer.id, partial(of_scorer, scorer, example)
        for id, rival in judge_rivals.RIVALS.get(name, {}).items():
            yield id, partial(asyncio.to_thread, of_rival, rival, example, options)
    for case in failed_runs(options, name):
        yield "failure_step", partial(of_failure, case, judge)


def examples(options: argparse.Namespace, name: str) -> Sequence[Example]:
    runs = {"TauRetail": failures.outcomes, "TauRetailCalls": failures.trajectories}
    load = {**LOADERS, **runs}.get(name)
    return drawn(load(options.folder), options.half, options.n, options.offset) if load else []


def failed_runs(options: argparse.Namespace, name: str) -> Sequence[failures.Failure]:
    """Return failed runs of a half, with the step that people marked."""
    if name not in FAILURES:
        return []
    cases = [case for case in failures.failures(options.folder) if case.name == FAILURES[name]]
    half = [case for case in cases if labelled.held_out(case.id) is (options.half == "held_out")]
    half.sort(key=key_of)
    return half[options.offset : options.offset + options.n]


def key_of(case: failures.Failure) -> str:
    said = [message.text for step in case.run.operations for message in step.output_messages]
    return digest(f"{case.name} {said}")


async def of_scorer(scorer: Scorer, example: Example) -> Row:
    found = await failures.outcome(scorer, example.run)
    return {**about(example), **outcome(scorer, found)}


def about(example: Example) -> Row:
    row = {"item": example.digest, "right": example.right}
    return row if example.agreed else {**row, "agreed": False}


async def of_failure(case: failures.Failure, judge: Any) -> Row:
    scorer = built_in.failure_step(judge, assume_failed=True)
    found = await failures.outcome(scorer, case.run)
    named = getattr(found, "span_id", None)
    step = int(named, 16) if named else None
    hits = {"step": step == case.step}
    if case.agents:
        hits["agent"] = step is not None and case.agents[step] == case.agent
    if case.category:
        hits["category"] = getattr(found, "label", None) == case.category
    return {"item": key_of(case), **hits, "steps": len(case.run.operations), **outcome(scorer, found)}


def outcome(scorer: Scorer, found: Any) -> Row:
    """Return what is kept of an outcome: numbers and words of the scorer's own vocabulary."""
    records: Sequence[StepRecord] = [step for step in getattr(found, "steps", ()) if step.model]
    row: Row = {
        "question": scorer.version,
        "value": found.value if isinstance(found, Score) else None,
        "outcome": getattr(found, "reason", type(found).__name__),
        "calls": sum(step.attempts for step in records),
        "input_tokens": sum(step.usage.input_tokens for step in records),
        "output_tokens": sum(step.usage.output_tokens for step in records),
    }
    if isinstance(found, Score):
        row |= {"outcome": "score", "label": found.label, "verdicts": [*verdicts(records)]}
    return row


def verdicts(records: Iterable[StepRecord]) -> Iterator[str]:
    for step in records:
        lists = (step.result or {}).values() if isinstance(step.result, Mapping) else ()
        for items in (each for each in lists if isinstance(each, list)):
            yield from (item["verdict"] for item in items if isinstance(item, Mapping) and "verdict" in item)


def of_rival(rival: Callable[..., Row], example: Example, options: argparse.Namespace) -> Row:
    row = {**about(example), "question": rival.__name__}
    try:
        return row | rival(example, options.api_base, options.model)
    except Exception as error:
        nothing = dict.fromkeys(("calls", "input_tokens", "output_tokens"), 0)
        return row | nothing | {"value": None, "outcome": type(error).__name__}


def keep(rows: Sequence[Row]) -> None:
    """Add rows to the recorded ones, in place of those of the same item, scorer and model."""
    VERDICTS.mkdir(exist_ok=True)
    for name in {row["set"] for row in rows}:
        path = VERDICTS / f"{''.join(c for c in name.lower() if c.isalnum())}.jsonl"
        old = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        known = {identity(row): row for row in [*old, *(row for row in rows if row["set"] == name)]}
        lines = [json.dumps(known[key], ensure_ascii=False) for key in sorted(known)]
        new = path.with_suffix(".new")
        new.write_text("\n".join(lines) + "\n")
        new.replace(path)  # whole, also if this ends in between


def identity(row: Row) -> tuple[str, ...]:
    return row["half"], row["scorer"], row["model"], row["item"]


# --- the tables ---


def recorded() -> list[Row]:
    lines = (line for path in sorted(VERDICTS.glob("*.jsonl")) for line in path.read_text().splitlines())
    return [json.loads(line) for line in lines]


KEY = "| set | evaluator | model | half | items |"
COSTS = "calls | tokens | $ per 1,000 |"
ACCURACY = "not scored | false alarms | found | balanced accuracy |"
HITS = ("step", "agent", "category")


def table(rows: Sequence[Row], prices: Sequence[float]) -> str:
    groups: defaultdict[tuple[str, str, str, str], list[Row]] = defaultdict(list)
    disputed = {row["set"] for row in rows if "agreed" in row}
    for row in rows:
        name, *key = row["set"], row["scorer"], row["model"], row["half"]
        groups[name, *key].append(row)
        if name in disputed and "agreed" not in row:
            groups[f"{name}, agreed", *key].append(row)
    labelled = [f"{KEY} {ACCURACY} {COSTS}", "|---|---|---|---|" + "--:|" * 8]
    failed = [f"{KEY} {' | '.join(HITS)} | {COSTS}", "|---|---|---|---|" + "--:|" * 7]
    for key, group in sorted(groups.items()):
        cells = [*key, str(len(group))]
        if "right" in group[0]:
            labelled.append(line([*cells, *accuracy(group), *costs(group, prices)]))
        else:
            hits = [share([row[what] for row in group]) if what in group[0] else "" for what in HITS]
            failed.append(line([*cells, *hits, *costs(group, prices)]))
    return "\n".join([*labelled, "", *failed, "", *ceilings(rows)])


def ceilings(rows: Sequence[Row]) -> list[str]:
    """Return a table of labels that no evaluator agrees with, of items that at least three were asked about.

    Choosing the best evaluator for each item would still miss these.
    """
    asked: defaultdict[tuple[str, str], defaultdict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if "right" in row and row["value"] is not None:
            asked[row["set"], row["half"]][row["item"]].append(row)
    lines = ["| set | half | items | right, all alarm | wrong, none alarms | best possible |"]
    lines.append("|---|---|" + "--:|" * 4)
    for key, items in sorted(asked.items()):
        judged = [group for group in items.values() if len(group) >= SEVERAL]
        false = [all(map(alarm, group)) for group in judged if group[0]["right"]]
        missed = [not any(map(alarm, group)) for group in judged if not group[0]["right"]]
        if false and missed:
            best = f"{1 - (fmean(false) + fmean(missed)) / 2:.3f}"
            lines.append(line([*key, str(len(judged)), str(sum(false)), str(sum(missed)), best]))
    return lines


def line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def accuracy(group: Sequence[Row]) -> list[str]:
    sides = [[alarm(row) for row in group if row["right"] is right] for right in (True, False)]
    unscored = str(sum(row["value"] is None for row in group))
    if not all(sides):
        return [unscored, "", "", ""]
    false, found = map(fmean, sides)
    chance = random.Random(1)
    drawn = ([fmean(chance.choices(side, k=len(side))) for side in sides] for _ in range(SAMPLES))
    again = sorted((1 - false + found) / 2 for false, found in drawn)
    interval = f"({again[SAMPLES // 40]:.2f}-{again[-SAMPLES // 40]:.2f})"
    return [unscored, f"{false:.0%}", f"{found:.0%}", f"{(1 - false + found) / 2:.3f} {interval}"]


def alarm(row: Row) -> bool:
    """An item without a score raises no alarm."""
    value = row["value"]
    if value is None:
        return False
    if row["scorer"] in DECIDING:
        return not DECIDING[row["scorer"]].isdisjoint([row["label"], *row["verdicts"]])
    return value > 0 if row["scorer"] in LOWER else value < 1


def share(hits: Sequence[bool]) -> str:
    chance, count = random.Random(1), len(hits)
    again = sorted(sum(chance.choices(hits, k=count)) / count for _ in range(SAMPLES))
    interval = f"({again[SAMPLES // 40]:.0%}-{again[-SAMPLES // 40]:.0%})"
    return f"{sum(hits)} = {sum(hits) / count:.0%} {interval}"


def costs(group: Sequence[Row], prices: Sequence[float]) -> list[str]:
    spent = ("calls", "input_tokens", "output_tokens")
    calls, given, written = (fmean(row[name] for row in group) for name in spent)
    dollars = (given * prices[0] + written * prices[1]) / 1_000
    return [f"{calls:.1f}", f"{given:.0f} + {written:.0f}", f"{dollars:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["ask", "table"])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--api-base")
    parser.add_argument("--model", default="byhand")
    parser.add_argument("--as", dest="name", help="how the tables name the model")
    parser.add_argument("--sets", default="FaithBench,SummEdits,HateCheck,When2Call")
    parser.add_argument("--half", choices=["development", "held_out"], default="development")
    parser.add_argument("--n", type=int, default=40)
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--only", default="", help="evaluators, with commas between")
    parser.add_argument("--at-once", type=int, default=400)
    parser.add_argument("--timeout", type=float, default=100_000.0)
    parser.add_argument("--prices", type=lambda text: [*map(float, text.split(","))], default=[0.25, 2.0])
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.name}")
    options = parser.parse_args()
    options.name = options.name or options.model
    if options.what == "ask":
        asyncio.run(ask(options))
        return
    made = table(recorded(), options.prices)
    print(made)
    if options.write:
        head, mark, rest = PAGE.read_text().partition("<!-- judges -->\n")
        end = "<!-- end of judges -->"
        PAGE.write_text(f"{head}{mark}\n{made}\n\n{end}{rest.partition(end)[2]}")


if __name__ == "__main__":
    main()
