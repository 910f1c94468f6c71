"""Run recorded cases of the original scorers through ours.

    python -m tests.oracle FILE... [--show]

Prints one line per scorer and exits 1 if any case differs without a rule in deviations.toml.
"""

from __future__ import annotations

import argparse
import math
import sys
import tomllib
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from otel_evals.errors import ConfigError
from otel_evals.model import NotScored, Score
from tests.oracle import code_scorers, judge_scorers
from tests.oracle.cases import Case, load
from tests.oracle.conditions import names

BUILD = {**judge_scorers.BUILD, **code_scorers.BUILD}
RULES = tomllib.loads((Path(__file__).parent / "deviations.toml").read_text())["rule"]


@dataclass(frozen=True)
class Ours:
    """What our scorer said."""

    how: str
    """`score`, `not_scored`, `failed` or `refused` (when it was built)."""
    value: float | None = None
    reason: str = ""


def ours(case: Case) -> Ours:
    """Build our scorer for a case and score its run."""
    try:
        scorer = BUILD[case.scorer](case)
    except (ConfigError, TypeError) as error:  # a TypeError names an option that ours does not have
        return Ours("refused", reason=str(error))
    try:
        outcome = anyio.run(scorer.score, case.run)
    except Exception as error:
        return Ours("failed", reason=str(error))
    match outcome:
        case Score():
            return Ours("score", outcome.value, outcome.explanation or "")
        case NotScored():
            return Ours("not_scored", reason=outcome.reason)


def equal(case: Case, got: Ours) -> bool:
    """The same score within 1e-6; or no score on either side."""
    if "error" in case.expected or case.score is None:
        return got.how != "score"
    return got.value is not None and math.isclose(got.value, case.score, abs_tol=1e-6)


def rule_for(case: Case, got: Ours) -> dict[str, Any] | None:
    """The rule that explains a deviation, by scorer, a condition on the case, and what ours says instead."""
    known = {**names(case), "how": got.how, "value": got.value, "reason": got.reason}
    for rule in RULES:
        named = rule["scorer"] if isinstance(rule["scorer"], list) else [rule["scorer"]]
        if case.scorer in named and _holds(rule["when"], known) and _holds(rule["ours"], known):
            return rule
    return None


def _holds(expression: str, known: dict[str, Any]) -> bool:
    try:
        return bool(eval(expression, known))  # our own file, not input
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, ZeroDivisionError):
        return False  # the case lacks what the rule speaks of


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("file", nargs="+", type=Path)
    parser.add_argument("--show", action="store_true", help="print every case that deviates or differs")
    options = parser.parse_args(argv)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: Counter[str] = Counter()
    for case in (case for path in options.file for case in load(path)):
        verdict, line = judge(case)
        counts[case.scorer][verdict] += 1
        if verdict == "deviating":
            reasons[line] += 1
        if verdict != "equal" and options.show:
            print(f"{verdict:>10}  {case.id}: {line}")
    return report(counts, reasons)


def judge(case: Case) -> tuple[str, str]:
    if case.scorer not in BUILD:
        return ("left out" if case.kind == "util" else "different"), "no such scorer here"
    got = ours(case)
    if equal(case, got):
        return "equal", ""
    if rule := rule_for(case, got):
        return "deviating", rule["reason"]
    theirs = case.score if "error" not in case.expected else case.expected["error"].get("message")
    return "different", f"recorded {theirs}, ours {got.how} {got.value} {got.reason[:160]}"


def report(counts: dict[str, Counter[str]], reasons: Counter[str]) -> int:
    print(f"{'scorer':<28}{'cases':>7}{'equal':>8}{'deviating':>11}{'different':>11}")
    utilities = sum(counter["left out"] for counter in counts.values())
    for scorer in sorted(s for s in counts if not counts[s]["left out"]):
        c = counts[scorer]
        print(f"{scorer:<28}{c.total():>7}{c['equal']:>8}{c['deviating']:>11}{c['different']:>11}")
    if utilities:
        print(f"left out: {utilities} cases of message helpers, which are no scorers")
    for reason, n in reasons.most_common():
        print(f"  {n:>3} deviating: {reason}")
    different = sum(c["different"] for c in counts.values())
    print(f"{different} different")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
