"""The scorers that ask a judge: one question each, what it shows, and what its answers are worth.

The recorded cases of tests/oracle cover the formulas.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from typing import Any

import anyio
import pytest

import otel_evals.scorers as built_in
from otel_evals._internal.scorers.own import Criterion
from otel_evals.errors import ConfigError, JudgeUnavailableError
from otel_evals.judges import JudgeRequest, ScriptedJudge
from otel_evals.model import Direction, Document, NotScored, Operation, OperationKind, Run, Score, SpanRecord
from otel_evals.scorers import PromptStep, Scorer, ScoreReply, step_scorer
from tests.support.judge_scorers import JUDGE_OPTIONS, judge_scorers
from tests.support.runs import a_run, tool
from tests.support.stepped_run import RUN as STEPPED
from tests.support.stepped_run import span_id

RUN = a_run(
    tools=[tool("orders", {"ships": "Monday"}, arguments={"id": 7})],
    documents=(Document(content="first piece"), Document(content="second piece")),
    ground_truth="It ships on Monday.",
    system_instructions="Be brief.",
    history=[("user", "hello"), ("assistant", "earlier answer")],
)


def made(name: str, reply: Any, **options: Any) -> tuple[ScriptedJudge, Scorer]:
    judge = ScriptedJudge({"analyze": list(reply) if isinstance(reply, list) else reply})
    return judge, getattr(built_in, name)(judge, **{**JUDGE_OPTIONS.get(name, {}), **options})


def outcome(name: str, reply: Any, run: Run = RUN, **options: Any) -> Score | NotScored:
    judge, scorer = made(name, reply, **options)
    found: Score | NotScored = anyio.run(scorer.score, run)
    asked = len(reply) if isinstance(reply, list) else 1
    assert len(judge.requests) == asked or isinstance(found, NotScored)
    return found


def scored(name: str, reply: Any, run: Run = RUN, **options: Any) -> Score:
    found = outcome(name, reply, run, **options)
    assert isinstance(found, Score), found
    return found


def claims(*words: str) -> dict[str, Any]:
    return {"claims": [{"claim": f"claim {n}", "verdict": word} for n, word in enumerate(words, 1)]}


def verdicts(field: str, *words: str) -> dict[str, Any]:
    return {field: [{"words": "w", "verdict": word} for word in words]}


def numbered(field: str, name: str, *words: str) -> dict[str, Any]:
    return {field: [{name: n, "verdict": word} for n, word in enumerate(words, 1)]}


ASPECTS = {"intent": 1.0, "fulfilment": 0.7, "completeness": 0.3, "appropriateness": 0.0}
RESPECTS = [{"respect": "r", "impact": i} for i in ("none", "Minimal", "moderate", "significant", "severe")]
NOISE = {"respects": RESPECTS, "major_issues": ["m"], "robustness": 0.9}
CRITERIA = numbered("criteria", "criterion", "met", "unmet")
SUMMARY = {**claims("supported", "absent"), "points": [{"point": "p", "verdict": "covered"}]}
OPTIONAL = [Criterion("says when"), {"description": "rhymes", "required": False}]
STEPS = {"steps": [{"step": 1, "necessary": True, "in_order": True}], "missing": ["m"]}


@pytest.mark.parametrize(
    ("name", "reply", "options", "value", "label"),
    [
        ("hallucination", claims("supported", "absent", "Contradicted."), {}, 0.67, None),
        ("hallucination", claims("supported", "absent", "absent"), {"scale": 10}, 6.67, None),
        ("faithfulness", claims("supported", "absent", "**supported**"), {}, 0.67, None),
        ("context_recall", claims("supported", "absent"), {}, 0.5, None),
        ("summarization", SUMMARY, {}, 0.5, None),
        ("answer_relevancy", verdicts("statements", "relevant", "Doubtful", "irrelevant"), {}, 0.43, None),
        (
            "answer_relevancy",
            verdicts("statements", "relevant", "doubtful"),
            {"uncertainty_weight": 0.5},
            0.75,
            None,
        ),
        ("toxicity", verdicts("sentences", "toxic", "fine"), {}, 0.5, None),
        ("bias", verdicts("remarks", "fair", "biased"), {}, 0.5, None),
        ("bias", {"remarks": []}, {}, 0.0, None),
        ("factuality", {"relation": " Immaterial."}, {}, 1.0, "immaterial"),
        ("factuality", {"relation": "narrower"}, {"worth": {"narrower": 0.5}, "scale": 4}, 2.0, "narrower"),
        ("classifier", {"label": "no "}, {"classes": {"Yes": 3, "No": -1}}, -1.0, "No"),
        ("noise_sensitivity", NOISE, {}, 0.47, None),
        ("noise_sensitivity", {**NOISE, "robustness": 0.4}, {}, 0.3, None),
        ("prompt_alignment", ASPECTS, {"mode": "user"}, 0.67, None),
        ("prompt_alignment", ASPECTS, {"mode": "system"}, 0.64, None),
        ("context_precision", numbered("pieces", "piece", "useless", "useful"), {}, 0.5, None),
        (
            "rubric",
            numbered("criteria", "criterion", "met", "unmet"),
            {"criteria": OPTIONAL},
            1.0,
            "satisfied",
        ),
        ("rubric", numbered("criteria", "criterion", "unmet"), {"criteria": "- x"}, 0.0, "not_satisfied"),
        ("multi_turn_judge", {"verdict": "met"}, {"scale": 2}, 2.0, "satisfied"),
        ("tool_call_judge", numbered("calls", "call", "made up"), {}, 0.0, None),
        ("tool_call_judge", numbered("calls", "call", "right"), {}, 1.0, None),
        ("trajectory_judge", STEPS, {}, 0.95, None),
    ],
)
def test_a_score_is_the_worth_of_verdicts_in_one_call(
    name: str, reply: Any, options: dict[str, Any], value: float, label: str | None
) -> None:
    score = scored(name, reply, **options)
    assert (score.value, score.label) == (pytest.approx(value), label)
    assert [step.name for step in score.steps if step.model] == ["analyze"]


def test_the_explanation_is_put_together_from_the_verdicts() -> None:
    reply = claims("supported", "contradicted")
    reply["claims"][1] |= {"evidence": "ships: Monday", "reason": "another day"}
    assert scored("hallucination", reply).explanation == (
        "1 of 2 claims supported\ncontradicted: claim 2; ships: Monday (another day)"
    )
    found = scored("rubric", CRITERIA, criteria=OPTIONAL)
    assert found.explanation == "met: says when\nNOT met (optional): rhymes"
    missing = {**numbered("calls", "call", "right"), "missing": ["refund"]}
    assert (scored("tool_call_judge", missing).explanation or "").endswith("missing: refund")


@pytest.mark.parametrize(
    ("name", "run", "reply", "options", "reason"),
    [
        ("hallucination", RUN, claims(), {}, "no_claims"),
        ("hallucination", a_run(), claims("absent"), {}, "no_context"),
        ("hallucination", RUN, claims("absent"), {"context": []}, "no_context"),
        ("hallucination", a_run(None, tools=RUN.tool_calls), claims(), {}, "output_not_recorded"),
        ("answer_relevancy", a_run(user=None), {}, {}, "input_not_recorded"),
        ("answer_relevancy", RUN, {"statements": []}, {}, "no_statements"),
        ("toxicity", RUN, {"sentences": []}, {}, "no_verdicts"),
        ("factuality", a_run(), {}, {}, "ground_truth_not_recorded"),
        ("answer_similarity", RUN, {"units": []}, {}, "no_units"),
        ("prompt_alignment", a_run(), {}, {}, "system_instructions_not_recorded"),
        ("context_relevance", a_run(), {}, {}, "no_context"),
        ("rubric", RUN, {}, {"criteria": lambda run: None}, "no_criteria"),
        ("multi_turn_judge", a_run(None), {}, {}, "output_not_recorded"),
        ("tool_call_judge", a_run(), {}, {}, "no_tools_known"),
        ("failure_step", a_run(None, None), {}, {}, "no_steps"),
    ],
)
def test_a_run_to_which_a_scorer_does_not_apply_is_not_scored(
    name: str, run: Run, reply: Any, options: dict[str, Any], reason: str
) -> None:
    found = outcome(name, reply, run, **options)
    assert isinstance(found, NotScored)
    assert found.reason == reason


@pytest.mark.parametrize(
    ("name", "options", "field"),
    [
        ("answer_relevancy", {"scale": 0}, "scale"),
        ("answer_relevancy", {"uncertainty_weight": float("nan")}, "uncertainty_weight"),
        ("answer_similarity", {"missing_penalty": -1}, "missing_penalty"),
        ("summarization", {"max_questions": 0}, "max_questions"),
        ("prompt_alignment", {"mode": "none"}, "mode"),
        ("noise_sensitivity", {"baseline_response": ""}, "baseline_response"),
        ("noise_sensitivity", {"impact_weights": {"huge": 0}}, "impact_weights"),
        ("factuality", {"worth": {"wider": 1}}, "worth"),
        ("context_relevance", {"context": []}, "context"),
        ("hallucination", {"context": "One text."}, "context"),
        ("tool_call_judge", {"available_tools": "search"}, "available_tools"),
        ("trajectory_judge", {"expected_steps": "Search, then answer."}, "expected_steps"),
        ("classifier", {"classes": {"a": 1, "A.": 0}}, "classes"),
        ("classifier", {"descriptions": {"maybe": "?"}}, "descriptions"),
        ("classifier", {"prompt": "Is it so? $output"}, "prompt"),
        ("rubric", {"criteria": []}, "criteria"),
        ("rubric", {"criteria": [{"text": "x"}]}, "criteria"),
        ("rubric", {"criteria": "x", "prompt": "Judge: $criteria $ouptut"}, "prompt"),
        ("multi_turn_judge", {"criterion": " "}, "criterion"),
        ("failure_step", {"categories": {}}, "categories"),
    ],
)
def test_a_wrong_option_is_named(name: str, options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=rf"{name}\.{field}"):
        made(name, {}, **options)


def test_a_reply_without_a_verdict_for_each_item_is_asked_for_again() -> None:
    run = a_run(tools=[tool("a"), tool("b")])
    short, whole = numbered("calls", "call", "right"), numbered("calls", "call", "right", "needless")
    assert scored("tool_call_judge", [short, whole], run).value == 0.5
    twice = numbered("calls", "call", "right", "right")
    twice["calls"][1]["call"] = 1
    assert scored("tool_call_judge", [twice, whole], run).value == 0.5


# --- one judgement in two directions ---


def test_hallucination_and_faithfulness_of_a_run_are_one_call() -> None:
    judge = ScriptedJudge({"analyze": claims("supported", "absent", "absent")})
    ids = ("hallucination", "faithfulness")
    scorers = [getattr(built_in, id)(judge) for id in ids]

    async def both() -> list[Any]:
        return await asyncio.gather(*(scorer.score(RUN) for scorer in scorers))

    worse, better = asyncio.run(both())
    assert (worse.value, better.value) == (0.67, 0.33)
    assert len(judge.requests) == 1
    spent = [step.usage.output_tokens for step in (*worse.steps, *better.steps) if step.model]
    assert sorted(spent) == [0, 20]
    assert scorers[0].direction is Direction.LOWER


def test_a_scorer_that_asks_again_gets_another_answer() -> None:
    judge = ScriptedJudge({"analyze": claims("supported")})

    async def twice() -> None:
        scorer = built_in.hallucination(judge)
        await scorer.score(RUN)
        await scorer.score(RUN)
        await built_in.votes(scorer, 2).score(RUN)

    asyncio.run(twice())
    assert len(judge.requests) == 4


def test_a_scorer_with_a_check_of_its_own_takes_no_answer_that_fails_it() -> None:
    judge = ScriptedJudge({"generate_score": [{"score": 0.2}, {"score": 0.8}]})
    loose = PromptStep(prompt="How good is $output?", schema=ScoreReply)

    def check(params: Any, reply: ScoreReply) -> str | None:
        return "too low" if reply.score < 0.5 else None

    strict = PromptStep(prompt=loose.prompt, schema=ScoreReply, check=check)

    async def both() -> list[Any]:
        first = step_scorer("loose", judge=judge).generate_score(loose)
        second = step_scorer("strict", judge=judge).generate_score(strict)
        return [await first.score(RUN), await second.score(RUN)]

    assert [score.value for score in asyncio.run(both())] == [0.2, 0.8]
    assert len(judge.requests) == 2


def test_a_scorer_asks_itself_if_the_other_one_failed() -> None:
    judge = ScriptedJudge({"analyze": [JudgeUnavailableError("busy"), claims("supported")]})
    scorers = [built_in.hallucination(judge), built_in.faithfulness(judge)]

    async def both() -> list[Any]:
        return await asyncio.gather(*(s.score(RUN) for s in scorers), return_exceptions=True)

    hallucination, faithfulness = asyncio.run(both())  # either may be the first to ask
    if isinstance(hallucination, Exception):
        assert faithfulness.value == 1.0
    else:
        assert isinstance(faithfulness, Exception)
        assert hallucination.value == 0.0


# --- evidence ---

MARKS = {
    "the user's words": "<input>",
    "final answer": "<output>",
    "the assistant's words": "<output>",
    "the system instructions": "<system>",
    "expected": "<expected>",
    "results": "<result>",
    "tool calls": "<argument>",
    "documents": "<document>",
    "earlier turns": "<history>",
    "the conversation before": "<history>",
    "its source": "<input>",
    "the tools at hand": "<definition>",
    "the tool definitions": "<definition>",
    "the operations of the run": "<output>",
}
"""What a docstring's `Needs` speaks of, and what a run has of it."""


def marked_run(*, with_operations: bool = True) -> Run:
    span = SpanRecord(trace_id="1" * 32, span_id="3" * 16)
    parameters = {"required": ["<parameter>"]}
    defined = {"name": "orders", "description": "<definition>", "parameters": parameters}
    call = Operation(span=span, kind=OperationKind.INFERENCE, convention="x", tool_definitions=(defined,))
    return a_run(
        "<output>",
        "<input>",
        tools=[tool("orders", "<result>", arguments={"id": "<argument>"})],
        documents=(Document(content="<document>"),),
        ground_truth="<expected>",
        system_instructions="<system>",
        history=[("user", "<history>")],
        operations=(call,) if with_operations else (),
    )


def asked_about(name: str, run: Run, **options: Any) -> JudgeRequest:
    judge, scorer = made(name, {}, **options)
    asyncio.run(_any_outcome(scorer, run))
    return judge.requests[0]


async def _any_outcome(scorer: Scorer, run: Run) -> None:
    with pytest.raises(Exception, match="analyze"):
        await scorer.score(run)


@pytest.mark.parametrize("name", judge_scorers())
def test_a_prompt_holds_the_evidence_that_the_docstring_promises(name: str) -> None:
    doc = re.sub(r"\s+", " ", inspect.getdoc(getattr(built_in, name)) or "")
    needs = doc.partition("Needs: ")[2].partition("Not scored: ")[0]
    promised = {mark for words, mark in MARKS.items() if words in needs}
    assert promised, needs
    run = marked_run(with_operations=name != "failure_step")  # whose messages are in its operations
    prompt = asked_about(name, run).prompt
    assert [mark for mark in promised if mark not in prompt] == []
    assert "$" not in re.sub(r"<data-.*?</data-", "", prompt, flags=re.DOTALL)


@pytest.mark.parametrize("name", ["classifier", "rubric", "multi_turn_judge"])
def test_a_question_of_ones_own_is_shown_what_tools_brought_unless_told_otherwise(name: str) -> None:
    run = a_run(tools=[tool("check_refund", "refused"), tool("other", "noise"), tool("silent")])
    everything = asked_about(name, run).prompt
    assert all(text in everything for text in ("refused", "noise", "silent(): its result was not recorded"))
    assert "(nothing)" in asked_about(name, a_run()).prompt
    from otel_evals.context import tool_results

    chosen = asked_about(name, run, get_context=tool_results(["check_refund"])).prompt
    assert "refused" in chosen
    assert "noise" not in chosen


def test_a_rubric_may_ask_in_its_own_words() -> None:
    prompt = "Judge $output for $question by:\n$criteria\nKnown: $context. Cost: $$5."
    request = asked_about("rubric", RUN, criteria=["It is short."], prompt=prompt)
    assert request.prompt.startswith("Judge <data-")
    assert "1. It is short." in request.prompt
    assert request.prompt.endswith("Cost: $5.")


def test_a_tool_call_judge_knows_an_agent_without_tools() -> None:
    run = a_run(tools=[tool("orders")])
    assert "none: every call is wrong_tool" in asked_about("tool_call_judge", run, available_tools={}).prompt
    assert "not known" in asked_about("tool_call_judge", run).prompt
    assert "<parameter>" in asked_about("tool_call_judge", marked_run()).prompt


# --- the step that failed ---

READ_WRONGLY = {"failed": True, "step": 4, "category": "Result misread.", "reason": "It ships on Monday."}


def test_a_failure_is_about_the_span_of_its_step() -> None:
    score = scored("failure_step", READ_WRONGLY, STEPPED)
    assert (score.value, score.label, score.span_id) == (0.0, "result_misread", span_id(4))
    assert re.fullmatch(r"step 4, inference .*: It ships on Monday\.", score.explanation or "")
    prompt = asked_about("failure_step", STEPPED).prompt
    assert '4. "inference' in prompt
    assert "\nresult_misread: " in prompt


def test_a_run_without_a_failure_is_about_no_step() -> None:
    score = scored("failure_step", {"failed": False, "reason": "It was answered."}, STEPPED)
    assert (score.value, score.label, score.span_id) == (1.0, "none", None)
    assert score.explanation == "It was answered."


def test_a_run_that_is_said_to_have_failed_has_a_step_that_made_it_fail() -> None:
    fine = {"failed": False, "reason": "It was answered."}
    assert scored("failure_step", [fine, READ_WRONGLY], STEPPED, assume_failed=True).span_id == span_id(4)
    assert "Decide whether the run" not in asked_about("failure_step", STEPPED, assume_failed=True).prompt


def test_a_question_that_no_operation_has_is_the_first_step() -> None:
    run = a_run(user="Why?", operations=STEPPED.operations)
    assert '1. "user\\nmessage:\\nuser: Why?"' in asked_about("failure_step", run).prompt
    assert scored("failure_step", {**READ_WRONGLY, "step": 5}, run).span_id == span_id(4)


@pytest.mark.parametrize("wrong", [{"step": 0}, {"step": 5}, {"category": ""}])
def test_a_step_or_category_that_does_not_exist_is_asked_for_again(wrong: dict[str, Any]) -> None:
    assert scored("failure_step", [{**READ_WRONGLY, **wrong}, READ_WRONGLY], STEPPED).span_id == span_id(4)


def test_a_run_without_operations_is_judged_by_its_messages() -> None:
    reply = {"failed": True, "step": 2, "category": "late", "reason": "no"}
    run = a_run(tools=[tool("orders")])
    score = scored("failure_step", reply, run, categories={"late": "too late"})
    assert (score.label, score.span_id, score.explanation) == ("late", None, "step 2, tool orders: no")
    versions = {made("failure_step", {}, categories=c)[1].version for c in (None, {"a": "b"})}
    assert len(versions) == 2
