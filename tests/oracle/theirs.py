"""The original's formulas for texts, as the specification of the recorded cases gives them.

A rule that says why our score differs must first find that the recorded one is what the original would say:
then it cannot excuse a wrong score.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from itertools import pairwise
from typing import Any

from otel_evals._internal.scorers.compared import uncovered
from tests.oracle.cases import Case


def coverage(wanted: Collection[str], given: Collection[str]) -> float:
    """Return the share of covered elements, 0 to 1; `wanted` must not be empty."""
    return 1 - len(uncovered(wanted, given)) / len(wanted)


def theirs(case: Case) -> float:
    """The score that the original gives."""
    pre = case.expected.get("preprocessStepResult") or {}
    match case.scorer:
        case "content-similarity":
            return _similarity(case)
        case "textual-difference":
            one, other = map(units, texts(case))
            return 1.0 if one == other else 2 * lcs(one, other) / (len(one) + len(other))
        case "keyword-coverage":
            pre = pre.get("result", pre)
            wanted, given = pre["referenceKeywords"], pre["responseKeywords"]
            return len(wanted & given) / len(wanted) if wanted else 1.0
        case "completeness":
            wanted, given = pre["inputElements"], pre["outputElements"]
            return coverage(wanted, given) if wanted else float(not given)
    return float(pre["score"])


def texts(case: Case) -> tuple[str, str]:
    """What the original compares: each side's messages of any role, joined; of each the last text part."""
    given, output = case.recorded.get("input") or {}, case.recorded.get("output")
    sides = (given.get("inputMessages", ()), output if isinstance(output, list) else ())
    one, other = (", ".join(map(text_of, side)) for side in sides)
    return one, other


def text_of(recorded: dict[str, Any]) -> str:
    content = recorded["content"]
    parts = [part["text"] for part in content.get("parts", ()) if part.get("type") == "text"]
    return content.get("content") or (parts[-1] if parts else "")


def _similarity(case: Case) -> float:
    explicit = "$explicit" in case.options
    sides = [re.sub(r"\s", "", text) for text in texts(case)]
    if case.options.get("ignoreCase", not explicit):
        sides = [side.lower() for side in sides]
    return dice(*map(units, sides))


def units(text: str) -> list[int]:
    """UTF-16 units, in which JavaScript counts."""
    raw = text.encode("utf-16-le", "surrogatepass")
    return [raw[i] + 256 * raw[i + 1] for i in range(0, len(raw), 2)]


def dice(one: Sequence[Hashable], other: Sequence[Hashable]) -> float:
    """Sorensen-Dice by the book: shared pairs of neighbours, each used once."""
    if one == other:
        return 1.0
    if min(len(one), len(other)) < 2:
        return 0.0
    left, right = Counter(pairwise(one)), Counter(pairwise(other))
    shared = sum(min(count, right[pair]) for pair, count in left.items())
    return 2 * shared / (left.total() + right.total())


def lcs(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Length of the longest common subsequence, by the textbook's table."""
    row = [0] * (len(other) + 1)
    for a in one:
        diagonal = 0
        for i, b in enumerate(other, 1):
            diagonal, row[i] = row[i], diagonal + 1 if a == b else max(row[i], row[i - 1])
    return row[-1]
