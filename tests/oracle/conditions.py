"""Words that the rules in deviations.toml are written in: facts about a recorded case."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from otel_evals._internal.scorers.judged import normalise_word
from otel_evals._internal.scorers.retrieval import average_precision
from tests.oracle import text_conditions
from tests.oracle.cases import Case

ALLOWED = {
    "answer-relevancy": {"yes", "no", "unsure"},
    "faithfulness": {"yes", "no", "unsure"},
    "context-recall": {"yes", "no", "unsure"},
    "hallucination": {"yes", "no"},
    "bias": {"yes", "no"},
    "toxicity": {"yes", "no"},
    "context-precision": {"yes", "no"},
}


def _lower(word: str) -> str:
    return word.strip().lower()


READ_THERE: dict[str, Callable[[str], str]] = {
    "faithfulness": lambda word: word,
    "hallucination": lambda word: word,
    "bias": str.lower,
}
"""How the recorded scorers read verdicts, where not without case and blanks."""


def names(case: Case) -> dict[str, Any]:
    """What a rule's expressions may speak of."""
    analyze = case.replies.get("analyze")
    analyze = analyze if isinstance(analyze, dict) else {}
    options = {**case.options, **(case.options.get("options") or {})}
    criteria = options.get("criteria")
    return {
        "math": math,
        "close": close,
        "scale": options.get("scale") or 1,
        "case": case,
        "options": options,
        "run": case.run,
        "tags": case.tags,
        "expected": case.score,
        "failed_there": "error" in case.expected,
        "pre": _pre(case),
        "analyze": analyze,
        "verdicts": _verdicts(analyze),
        "unknown_words": [
            w for w in _words(analyze) if normalise_word(w) not in ALLOWED.get(case.scorer, {w})
        ],
        "asked": _asked(case, options),
        "as_read_there": _from_words(case, analyze, options, READ_THERE.get(case.scorer, _lower)),
        "as_read_here": _from_words(case, analyze, options, normalise_word),
        "user_sum": _weighted(analyze, (0.4, 0.3, 0.2, 0.1)),
        "system_sum": _weighted(analyze, (0.35, 0.35, 0.15, 0.15)),
        "trajectory": _trajectory(analyze),
        "required_there": [v.get("required", True) for v in analyze.get("criteria", ())],
        "required_here": _required(criteria, len(analyze.get("criteria", ()))),
        "met": lambda required: _met(analyze.get("criteria", ()), required),
        **text_conditions.names(case),
    }


def close(one: float | None, other: float) -> bool:
    """Whether two scores are equal but for rounding to two decimals."""
    return one is not None and abs(one - other) < 0.00501


def _pre(case: Case) -> dict[str, Any]:
    found = case.replies.get("preprocess")
    return found if isinstance(found, dict) else {}


def _verdicts(analyze: dict[str, Any]) -> list[Any]:
    keys = ("verdicts", "results", "evaluations", "matches", "coverage", "criteria", "step_evaluations")
    return next((analyze[key] for key in keys if key in analyze), [])


def _words(analyze: dict[str, Any]) -> list[str]:
    return [v.get("verdict", v.get("result", "")) for v in _verdicts(analyze) if isinstance(v, dict)]


def _from_words(
    case: Case, analyze: dict[str, Any], options: dict[str, Any], read: Callable[[str], str]
) -> float | None:
    """The score that verdicts come to, if they are read like this."""
    words = [read(word) for word in _words(analyze)]
    if not words or case.scorer not in ALLOWED:
        return None
    yes = words.count("yes")
    match case.scorer:
        case "answer-relevancy":
            value = (yes + options.get("uncertaintyWeight", 0.3) * words.count("unsure")) / len(words)
        case "context-recall":
            value = min(1.0, yes / (_asked(case, options) or 1))
        case "context-precision":
            places = [verdict["context_index"] for verdict in _verdicts(analyze)]
            ranked = [words[n] for n in sorted(range(len(words)), key=places.__getitem__)]
            value = average_precision([word == "yes" for word in ranked])
        case _:
            value = yes / len(words)
    return value * (options.get("scale") or 1)


def _asked(case: Case, options: dict[str, Any]) -> int | None:
    """How many verdicts the judge was asked for; None where that is not counted."""
    pre = _pre(case)
    match case.scorer:
        case "answer-relevancy":
            return len(pre.get("statements", ()))
        case "faithfulness" | "hallucination" | "context-recall":
            return len(pre.get("claims", ()))
        case "bias":
            return len(pre.get("opinions", ())) or 1
        case "answer-similarity":
            return len(pre.get("ground_truth_units", ()))
        case "summarization":
            return len(pre.get("questions", ())[: options.get("maxQuestions", 10)])
        case "tool-call-accuracy-llm" | "trajectory-accuracy-llm":
            return len(case.run.tool_calls)
        case "context-relevance" | "context-precision":
            return len(options.get("$contextExtractor") or options.get("context") or ())
    return None


def _weighted(analyze: dict[str, Any], weights: tuple[float, ...]) -> float:
    """Prompt alignment's four numbers, weighted."""
    try:
        numbers = (
            analyze["intent_alignment"]["score"],
            analyze["requirements_fulfillment"]["overall_score"],
            analyze["completeness"]["score"],
            analyze["response_appropriateness"]["score"],
        )
    except KeyError:
        return math.nan
    return sum(w * n for w, n in zip(weights, numbers, strict=True))


def _trajectory(analyze: dict[str, Any]) -> float:
    """The recorded formula of the trajectory judge."""
    steps, lost = analyze.get("step_evaluations") or (), len(analyze.get("missing_steps") or ())
    if not steps:
        return math.nan
    necessary = sum(s["was_necessary"] for s in steps) / len(steps)
    ordered = sum(s["was_in_order"] for s in steps) / len(steps)
    return 0.6 * necessary + 0.3 * ordered - 0.1 * lost / (len(steps) + lost)


def _required(criteria: Any, count: int) -> list[bool]:
    if not isinstance(criteria, list):
        return [True] * count
    return [c.get("required", True) if isinstance(c, dict) else True for c in criteria]


def _met(found: Any, required: list[bool]) -> bool:
    decisive = [f for f, needed in zip(found, required, strict=True) if needed]
    return all(f["satisfied"] for f in (decisive or found))
