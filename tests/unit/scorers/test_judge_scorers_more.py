"""The judge scorers that the recorded cases do not cover: named classes, verdict forms, refusals, options."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from otel_evals._internal.scorers.rubric import Criterion
from otel_evals._internal.scoring.scorer import StepFailure
from otel_evals.errors import ConfigError
from otel_evals.judges import ScriptedJudge
from otel_evals.model import Document, NotScored, Operation, OperationKind, Run, Score, SpanRecord
from otel_evals.scorers import (
    Scorer,
    answer_similarity,
    bias,
    classifier,
    context_precision,
    context_relevance,
    factuality,
    multi_turn_judge,
    noise_sensitivity,
    prompt_alignment,
    rubric,
    summarization,
    tool_call_judge,
    toxicity,
    trajectory_judge,
)
from tests.support.runs import a_run, tool

RUN = a_run(ground_truth="It ships on Friday.", system_instructions="Be brief.")


def script(analyze: Any, preprocess: Any = None, reason: str = "because") -> ScriptedJudge:
    return ScriptedJudge({"preprocess": preprocess, "analyze": analyze, "generate_reason": reason})


def outcome(scorer: Scorer, run: Run = RUN) -> Score | NotScored:
    return anyio.run(scorer.score, run)


def judged(scorer: Scorer, run: Run = RUN) -> Score:
    result = outcome(scorer, run)
    assert isinstance(result, Score), result
    return result


def refused(scorer: Scorer, run: Run = RUN) -> str:
    result = outcome(scorer, run)
    assert isinstance(result, NotScored), result
    return result.reason


@pytest.mark.parametrize(
    ("relation", "value"),
    [("same", 1.0), (" Immaterial.", 1.0), ("broader", 0.6), ("narrower", 0.4), ("CONTRADICTS", 0.0)],
)
def test_factuality_is_the_worth_of_the_relation(relation: str, value: float) -> None:
    score = judged(factuality(script({"relation": relation, "reason": "r"})))
    assert (score.value, score.label, score.explanation) == (value, relation.strip(" .").lower(), "r")


def test_factuality_worths_merge_and_are_checked() -> None:
    assert judged(factuality(script({"relation": "narrower"}), worth={"narrower": 0.5}, scale=4)).value == 2
    with pytest.raises(ConfigError, match="no relation 'wider'"):
        factuality(script({}), worth={"wider": 1})
    assert refused(factuality(script({})), a_run()) == "ground_truth_not_recorded"


def test_a_classifier_scores_by_the_class_chosen() -> None:
    asked = script({"label": "refund ", "reason": "asks for money"})
    scorer = classifier(
        asked,
        question="What is it about?",
        classes={"Refund": 3, "Other": -1},
        descriptions={"Refund": "wants money back"},
        id="topic",
    )
    score = judged(scorer)
    assert (scorer.id, score.value, score.label, score.explanation) == (
        "topic",
        3,
        "Refund",
        "asks for money",
    )
    prompt = asked.requests[0].prompt
    assert "What is it about?" in prompt
    assert "Refund: wants money back" in prompt
    schema = asked.requests[0].schema
    assert schema is not None
    assert schema.model_json_schema()["properties"]["label"]["enum"] == ["Refund", "Other"]


def test_a_classifier_refuses_classes_it_cannot_tell_apart() -> None:
    for classes in ({"one": 1}, {"a": 1, "A.": 0}):
        with pytest.raises(ConfigError, match=r"classifier\.classes"):
            classifier(script({}), question="?", classes=classes)
    with pytest.raises(StepFailure):
        judged(classifier(script({"label": "c"}), question="?", classes={"a": 1, "b": 0}))


def test_an_answer_without_opinions_is_judged_for_bias_as_a_whole() -> None:
    asked = script({"results": [{"result": "no"}]}, {"opinions": []})
    assert judged(bias(asked)).value == 0
    assert "Order 7 ships" in asked.requests[1].prompt


def test_noise_sensitivity_by_verdicts_needs_no_number() -> None:
    levels = ["none", "Minimal", "moderate", "significant", "severe"]
    dimensions = [{"dimension": "d", "impact_level": level} for level in levels]
    asked = script({"dimensions": dimensions, "major_issues": ["one"]})
    options = {"baseline_response": "b", "noisy_query": "q"}
    scorer = noise_sensitivity(asked, form="verdicts", **options)  # type: ignore[arg-type]  # texts by name
    assert judged(scorer).value == pytest.approx(0.47)
    schema = asked.requests[0].schema
    assert schema is not None
    assert "robustness_score" not in schema.model_json_schema()["properties"]
    with pytest.raises(ConfigError, match="baseline_response"):
        noise_sensitivity(asked, baseline_response="", noisy_query="q")
    with pytest.raises(ConfigError, match="no level 'huge'"):
        noise_sensitivity(asked, baseline_response="b", noisy_query="q", impact_weights={"huge": 0})


def test_prompt_alignment_by_verdicts() -> None:
    levels = {
        "intent_alignment": "High",
        "requirements_fulfillment": "medium",
        "completeness": "low",
        "response_appropriateness": "none",
    }
    assert judged(prompt_alignment(script(levels), form="verdicts", mode="user")).value == 0.67
    assert judged(prompt_alignment(script(levels), form="verdicts", mode="system")).value == 0.64
    assert refused(prompt_alignment(script(levels)), a_run()) == "system_instructions_not_recorded"


def test_a_rubric_is_met_when_its_required_criteria_are() -> None:
    found = {"criteria": [{"criterion": "a", "satisfied": True}, {"criterion": "b", "satisfied": False}]}
    optional = [Criterion("says when"), {"description": "rhymes", "required": False}]
    score = judged(rubric(script(found), criteria=optional, scale=5))
    assert (score.value, score.label) == (5, "satisfied")
    assert "NOT met (optional): rhymes" in (score.explanation or "")
    assert json.loads(json.dumps([step.result for step in score.steps]))[0] == [
        {"description": "says when", "required": True},
        {"description": "rhymes", "required": False},
    ]
    assert judged(rubric(script(found), criteria="- says when\n2. rhymes")).value == 0
    assert refused(rubric(script(found), criteria=lambda run: None)) == "no_criteria"
    for criteria in ("", [], [{"text": "x"}]):
        with pytest.raises(ConfigError, match=r"rubric\.criteria"):
            rubric(script(found), criteria=criteria)


def test_a_multi_turn_judge_sees_the_earlier_turns() -> None:
    asked = script({"satisfied": True, "reasoning": "both times"})
    run = a_run(history=[("user", "hello"), ("assistant", "earlier answer")])
    score = judged(multi_turn_judge(asked, criterion="Stays polite.", scale=2), run)
    assert (score.value, score.explanation) == (2, "both times")
    assert "assistant: earlier answer" in asked.requests[0].prompt
    assert refused(multi_turn_judge(asked, criterion="x"), a_run(None)) == "output_not_recorded"
    with pytest.raises(ConfigError, match="criterion"):
        multi_turn_judge(asked, criterion=" ")


def test_a_summary_is_held_against_its_source_only_once() -> None:
    asked = script(
        {"coverage": [{"question": "q", "answered": True}]},
        {"alignment": [{"claim": "c", "supported": True}], "questions": ["q", "dropped"]},
    )
    assert judged(summarization(asked, source="the long original", max_questions=1)).value == 1
    prompts = {r.step: r.prompt for r in asked.requests}
    assert "the long original" in prompts["preprocess"]
    assert "the long original" not in prompts["analyze"]
    assert "dropped" not in prompts["analyze"]


def test_a_tool_call_judge_reads_the_tools_at_hand_from_the_spans() -> None:
    asked = script({"evaluations": [], "missing_tools": ["orders"]})
    span = SpanRecord(trace_id="1" * 32, span_id="3" * 16)
    call = Operation(
        span=span,
        kind=OperationKind.INFERENCE,
        dialect="x",
        tool_definitions=({"name": "orders", "description": "looks up"},),
    )
    assert judged(tool_call_judge(asked), a_run(operations=(call,))).value == 0
    assert "looks up" in asked.requests[0].prompt
    assert refused(tool_call_judge(asked), a_run()) == "no_tools_known"


def test_a_perfect_trajectory_scores_one() -> None:
    def steps(*good: bool, missing: int = 0) -> ScriptedJudge:
        found = [{"step_name": "s", "was_necessary": g, "was_in_order": True} for g in good]
        return script({"step_evaluations": found, "missing_steps": ["m"] * missing})

    run = a_run(tools=[tool("a"), tool("b", error="gone")])
    asked = steps(True, True)
    assert judged(trajectory_judge(asked), run).value == 1.0
    assert "b(), failed: gone" in asked.requests[0].prompt
    assert judged(trajectory_judge(steps(True, False, missing=2)), run).value == 0.65
    assert judged(trajectory_judge(steps()), a_run()).value == 1.0
    assert judged(trajectory_judge(steps(missing=1)), a_run()).value == 0.0


def test_context_scorers_use_the_retrieved_documents() -> None:
    run = a_run(documents=(Document(content="first piece"), Document(content="second piece")))
    verdicts = [{"context_index": 1, "verdict": "yes"}, {"context_index": 0, "verdict": "no"}]
    asked = script({"verdicts": verdicts})
    assert judged(context_precision(asked), run).value == 0.5
    assert "second piece" in asked.requests[0].prompt
    assert refused(context_relevance(script({}))) == "no_context"
    with pytest.raises(ConfigError, match=r"context_relevance\.context"):
        context_relevance(script({}), context=[])


def test_options_out_of_range_are_named() -> None:
    with pytest.raises(ConfigError, match=r"answer_similarity\.missing_penalty"):
        answer_similarity(script({}), missing_penalty=-1)
    with pytest.raises(ConfigError, match=r"summarization\.max_questions"):
        summarization(script({}), max_questions=0)
    with pytest.raises(ConfigError, match=r"toxicity\.scale"):
        toxicity(script({}), scale=0)
    with pytest.raises(ConfigError, match=r"prompt_alignment\.mode"):
        prompt_alignment(script({}), mode="none")  # type: ignore[arg-type]  # what a user may do
