"""Words of the rules about texts, for the code-only scorers."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from otel_evals._internal.scorers.compared import elements, lemmatiser
from tests.oracle.cases import Case, message
from tests.oracle.theirs import coverage, dice, lcs, theirs

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
        "as_theirs": lambda: case.score is not None and abs(case.score - theirs(case)) < 1e-6,
        "dice": lambda: dice(*_folded(case, said, answer)),
        "lcs": lambda: 2 * lcs(said, answer) / len(said + answer),
        "covered": lambda: coverage(*(elements(t, lemmatiser("en")) for t in (said, answer))),
        "calls": [call.name for call in case.run.tool_calls],
        "in_parts": any(map(_called_in_parts, outputs)),
        "by_user": any(m.get("role") == "user" and _called(m) for m in outputs),
    }


def _called(recorded: dict[str, Any]) -> bool:
    content = recorded.get("content")
    return isinstance(content, dict) and bool(content.get("toolInvocations"))


def _called_in_parts(recorded: dict[str, Any]) -> bool:
    """Whether a message tells of calls in its parts only."""
    content = recorded.get("content")
    parts = content.get("parts", ()) if isinstance(content, dict) else ()
    return not _called(recorded) and any(part.get("type") == "tool-invocation" for part in parts)


def _parts(recorded: dict[str, Any]) -> int:
    content = recorded.get("content")
    parts = content.get("parts", ()) if isinstance(content, dict) and not content.get("content") else ()
    return sum(part.get("type") == "text" for part in parts)


def _folded(case: Case, *texts: str) -> list[str]:
    """Texts without what our options ignore."""
    if case.options.get("ignoreCase", True):
        texts = tuple(text.lower() for text in texts)
    if case.options.get("ignoreWhitespace", True):
        texts = tuple(re.sub(r"\s", "", text) for text in texts)
    return list(texts)
