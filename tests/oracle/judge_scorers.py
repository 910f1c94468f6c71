"""From a recorded case to our judge scorer with the same options and scripted replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from otel_evals.errors import JudgeReplyError
from otel_evals.judges import JudgeReply, JudgeRequest, ScriptedJudge
from otel_evals.scorers import (
    Scorer,
    answer_relevancy,
    answer_similarity,
    bias,
    context_precision,
    context_recall,
    context_relevance,
    faithfulness,
    hallucination,
    multi_turn_judge,
    noise_sensitivity,
    prompt_alignment,
    rubric,
    summarization,
    tool_call_judge,
    toxicity,
    trajectory_judge,
)
from tests.oracle.cases import Case, snake
from tests.oracle.replies import translated

RENAMED = {
    "evaluation_mode": "mode",
    "unused_high_relevance_context": "unused_penalty",
    "missing_context_per_item": "missing_penalty",
    "max_missing_context_penalty": "max_missing_penalty",
    "major_issue_per_item": "major_issue_penalty",
}
NESTED = ("penalties", "scoring", "options")


class RepairedJudge(ScriptedJudge):
    """As a real judge, asked once more where an answer does not have the form asked for."""

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Answer from the script; the next answer is the repair."""
        try:
            return await super().ask(request)
        except JudgeReplyError:
            return await super().ask(request)


def judge(case: Case) -> ScriptedJudge:
    """Answers what the recorded judge answered, in the form of our replies."""
    return RepairedJudge({"analyze": translated(case)})


def options(case: Case) -> dict[str, Any]:
    """The recorded options by our names: nested groups flattened, hooks made callables."""
    found: dict[str, Any] = {}
    for key, value in case.options.items():
        if key in NESTED:
            found.update({snake(k): v for k, v in (value or {}).items()})
        elif not key.startswith("$"):
            found[snake(key)] = value
    nested = found.pop("penalties", None) or {}
    found.update({snake(k): v for k, v in nested.items()})
    if "$getContext" in case.options or "$contextExtractor" in case.options:
        value = case.options.get("$getContext", case.options.get("$contextExtractor"))
        found["get_context"] = lambda params: value
    if "$getContextThrows" in case.options:
        found["get_context"] = _raising(case.options["$getContextThrows"])
    if "$getContextUndefined" in case.options:
        found["get_context"] = lambda params: None
    return {RENAMED.get(key, key): value for key, value in found.items()}


def _raising(message: str) -> Callable[[Any], Any]:
    def hook(params: Any) -> Any:
        raise RuntimeError(message)

    return hook


def plain(factory: Callable[..., Scorer]) -> Callable[[Case], Scorer]:
    return lambda case: factory(judge(case), **options(case))


def _context(factory: Callable[..., Scorer]) -> Callable[[Case], Scorer]:
    """The original has no default context: without one it cannot be built."""
    return lambda case: factory(judge(case), **({"context": []} | options(case)))


def _noise(case: Case) -> Scorer:
    found = options(case)
    weights = {snake(k): v for k, v in (found.pop("impact_weights", None) or {}).items()}
    needed = {"baseline_response": "", "noisy_query": ""}
    return noise_sensitivity(judge(case), **{**needed, **found}, impact_weights=weights)


def _similarity(case: Case) -> Scorer:
    found = options(case)
    found.pop("require_ground_truth", None)
    return answer_similarity(judge(case), **found)


def _rubric(case: Case) -> Scorer:
    found = options(case)
    given = case.recorded.get("input") or {}
    elsewhere = given.get("rubric") or (case.recorded.get("requestContext") or {}).get("rubric")
    elsewhere = elsewhere or (case.recorded.get("additionalContext") or {}).get("rubric")
    criteria = found.pop("criteria", None) or (lambda run: elsewhere)
    return rubric(judge(case), criteria=criteria, **found)


def _summarization(case: Case) -> Scorer:
    found = options(case)
    if "$sourceExtractor" in case.options:
        found["source"] = lambda run: case.options["$sourceExtractor"]
    return summarization(judge(case), **found)


def _tools(case: Case) -> Scorer:
    found = options(case)
    tools = {t["id"]: t.get("description", "") for t in found.pop("available_tools", None) or ()}
    return tool_call_judge(judge(case), available_tools=tools, **found)


def _trajectory(case: Case) -> Scorer:
    expected = case.options.get("expectedTrajectory") or case.recorded.get("expectedTrajectory") or {}
    return trajectory_judge(judge(case), expected_steps=[s["name"] for s in expected.get("steps", ())])


BUILD: dict[str, Callable[[Case], Scorer]] = {
    "answer-relevancy": plain(answer_relevancy),
    "answer-similarity": _similarity,
    "bias": plain(bias),
    "context-precision": _context(context_precision),
    "context-recall": _context(context_recall),
    "context-relevance": _context(context_relevance),
    "faithfulness": plain(faithfulness),
    "hallucination": plain(hallucination),
    "multi-turn-judge": plain(multi_turn_judge),
    "noise-sensitivity": _noise,
    "prompt-alignment": plain(prompt_alignment),
    "rubric": _rubric,
    "summarization": _summarization,
    "tool-call-accuracy-llm": _tools,
    "toxicity": plain(toxicity),
    "trajectory-accuracy-llm": _trajectory,
}
