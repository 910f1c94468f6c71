"""Words of the rules about texts, for the code-only scorers."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from itertools import pairwise
from typing import Any

from otel_evals.scorers.completeness import coverage, elements, lemmatiser
from tests.oracle.cases import Case, message

LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")


def names(case: Case) -> dict[str, Any]:
    """Facts about the texts of a recorded case, and what scores of them should be."""
    given = case.recorded.get("input")
    inputs = given.get("inputMessages", ()) if isinstance(given, dict) else ()
    output = case.recorded.get("output")
    outputs = output if isinstance(output, list) else ()
    texts = [message(m).text for m in (*inputs, *outputs)]
    said, answer = (unicodedata.normalize("NFC", t or "") for t in (case.run.input, case.run.output))
    whole = "".join((*texts, *map(str, case.options.values())))
    return {
        "re": re,
        "said": said,
        "answer": answer,
        "several_messages": len(inputs) > 1 or len(outputs) > 1,
        "several_parts": any(_parts(m) > 1 for m in (*inputs, *outputs)),
        "composed": all(unicodedata.is_normalized("NFC", text) for text in texts),
        "astral": any(ord(c) > 0xFFFF for c in whole),
        "emoji": any(unicodedata.category(c) == "So" for c in whole),
        "other_script": any(c.isalpha() and not LATIN.match(c) for c in whole),
        "keywords": (case.expected.get("preprocessStepResult") or {}).get("referenceKeywords"),
        "dice": lambda: dice(said, answer, **_folding(case)),
        "lcs": lambda: 2 * lcs(said, answer) / len(said + answer),
        "covered": lambda: coverage(*(elements(t, lemmatiser("en")) for t in (said, answer))),
        "calls": [call.name for call in case.run.tool_calls],
        "by_user": any(m.get("role") == "user" and _called(m) for m in outputs),
    }


def _called(recorded: dict[str, Any]) -> bool:
    content = recorded.get("content")
    return isinstance(content, dict) and bool(content.get("toolInvocations"))


def _parts(recorded: dict[str, Any]) -> int:
    content = recorded.get("content")
    parts = content.get("parts", ()) if isinstance(content, dict) and not content.get("content") else ()
    return sum(part.get("type") == "text" for part in parts)


def _folding(case: Case) -> dict[str, bool]:
    return {
        "case": case.options.get("ignoreCase", True),
        "blanks": case.options.get("ignoreWhitespace", True),
    }


def dice(one: str, other: str, *, case: bool, blanks: bool) -> float:
    """Sorensen-Dice by the book: shared pairs of characters, each used once."""
    if case:
        one, other = one.lower(), other.lower()
    if blanks:
        one, other = re.sub(r"\s", "", one), re.sub(r"\s", "", other)
    left, right = Counter(pairwise(one)), Counter(pairwise(other))
    shared = sum(min(count, right[pair]) for pair, count in left.items())
    return 2 * shared / (left.total() + right.total())


def lcs(one: str, other: str) -> int:
    """Length of the longest common subsequence, by the textbook's table."""
    row = [0] * (len(other) + 1)
    for a in one:
        diagonal = 0
        for i, b in enumerate(other, 1):
            diagonal, row[i] = row[i], diagonal + 1 if a == b else max(row[i], row[i - 1])
    return row[-1]
