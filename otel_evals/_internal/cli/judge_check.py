"""`otel-evals judge check`: the ways a server gives typed answers, and a judge's biases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import anyio
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

from otel_evals._internal.cli.terminal import json_text
from otel_evals._internal.judges.fence import visible
from otel_evals._internal.judges.judge import JudgeRequest
from otel_evals._internal.judges.model_judge import ModelJudge
from otel_evals._internal.judges.structured import LADDER, StructuredOutput
from otel_evals._internal.model import Score
from otel_evals._internal.model.evaluations import total_cost
from otel_evals._internal.offline.bias_trials import VARIANTS, Pair, effect, load_cases, try_biases
from otel_evals._internal.offline.progress_bar import bar
from otel_evals._internal.scoring.scorer import Scorer
from otel_evals.errors import JudgeError, JudgeReplyError

Found = dict[str, list[Pair]]
"""Pairs by the scorer's name."""


class Probe(BaseModel):
    reason: str
    verdict: Literal["yes", "no"]


_QUESTION = JudgeRequest(
    instructions="Answer in JSON, with a short reason.",
    prompt="Is Paris the capital of France? Give your reason, and the verdict yes or no.",
    schema=Probe,
)


def check_forms(judge: Any) -> dict[str, str]:
    """Ask in every form, and return the results; nothing for judges without forms."""
    judge = getattr(judge, "judge", judge)
    if not isinstance(judge, ModelJudge):
        return {}

    async def ask_all() -> dict[str, str]:
        return {rung: await _ask(judge, rung) for rung in LADDER}

    return anyio.run(ask_all)


async def _ask(judge: ModelJudge, rung: StructuredOutput) -> str:
    try:
        reply = await replace(judge, structured_output=rung).ask(_QUESTION)
    except JudgeReplyError as error:
        return f"ignored: {error}"
    except JudgeError as error:
        return f"refused: {error}"
    return "works" if reply.attempts == 1 else "works after a repair"


def check_biases(scorers: Sequence[Scorer], limit: int | None, at_once: int) -> Found:
    cases = load_cases()[:limit]
    with bar("checking", len(scorers) * len(cases) * (len(VARIANTS) + 1)) as done:

        async def check_all() -> Found:
            return {s.id: await try_biases(s, cases, at_once=at_once, done=done) for s in scorers}

        return anyio.run(check_all)


def check_report(forms: dict[str, str], scorers: Sequence[Scorer], found: Found) -> dict[str, Any]:
    return {
        "structured_output": forms,
        "biases": {s.id: {change: _effect(found[s.id], s, change) for change in VARIANTS} for s in scorers},
        "cost": {s.id: _cost(found[s.id]) for s in scorers},
    }


def _effect(pairs: Sequence[Pair], scorer: Scorer, change: str) -> dict[str, Any]:
    chosen = [pair for pair in pairs if pair.change == change]
    found = effect(chosen, scorer)
    interval = None if found.interval is None else (found.interval.low, found.interval.high)
    return {
        "pairs": len(chosen),
        "scored": found.n,
        "gain": found.mean,
        "interval": interval,
        "biased": interval is not None and not interval[0] <= 0 <= interval[1],
    }


def _cost(pairs: Sequence[Pair]) -> float | None:
    first = [pair.before for pair in pairs if pair.change == next(iter(VARIANTS))]
    scores = [outcome for outcome in [*first, *(p.after for p in pairs)] if isinstance(outcome, Score)]
    return total_cost([score.cost for score in scores])


def show_check(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json_text(found, indent=2))
        return
    forms = found["structured_output"]
    used = next((rung for rung, said in forms.items() if said.startswith("works")), None)
    for rung, said in forms.items():
        print(f"{rung:<19} {visible(said[:200])}{', used' if rung == used else ''}")
    table = Table("scorer", "changed", "pairs", "gain", "95% interval", "")
    for scorer, changes in found["biases"].items():
        for change, row in changes.items():
            table.add_row(scorer, change, f"{row['scored']} of {row['pairs']}", *_shown(row))
    Console().print(table)


def _shown(row: dict[str, Any]) -> tuple[str, str, str]:
    if row["gain"] is None or row["interval"] is None:
        return "unknown", "", ""
    low, high = row["interval"]
    return f"{row['gain']:+.2f}", f"{low:+.2f} to {high:+.2f}", "biased" if row["biased"] else ""
