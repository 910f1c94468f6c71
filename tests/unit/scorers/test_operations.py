"""What an operations team asks of every run: errors, loops, budgets, answers, JSON, language, secrets."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from otel_evals.errors import ConfigError
from otel_evals.model import (
    Availability,
    Direction,
    NotScored,
    Operation,
    OperationKind,
    Run,
    Score,
    SpanRecord,
    ToolCall,
    Usage,
)
from otel_evals.scorers import (
    FunctionScorer,
    answered,
    keyword_coverage,
    no_secrets,
    repeated_calls,
    same_language,
    tool_error_rate,
    unrecovered_tool_errors,
    valid_json,
    within_budget,
)
from tests.support.runs import a_run, tool


def got(scorer: FunctionScorer, judged: Run) -> tuple[float | None, str | None]:
    """Value and label; None and the reason when it was not scored."""
    outcome = scorer(judged)
    assert isinstance(outcome, Score | NotScored)
    if isinstance(outcome, NotScored):
        assert outcome.explanation
        return None, outcome.reason
    return outcome.value, outcome.label


# --- tools ---


@pytest.mark.parametrize(
    ("calls", "rate", "unrecovered"),
    [
        ([tool("a", 1)], (0.0, "ok"), (0.0, "ok")),
        ([tool("a", error="boom"), tool("b", 1)], (0.5, "failed"), (1.0, "unrecovered")),
        ([tool("a", error="boom"), tool("a", 1)], (0.5, "failed"), (0.0, "ok")),
        ([tool("a", {"error": "no stock"}), tool("b", 1)], (0.5, "failed"), (1.0, "unrecovered")),
        ([tool("a", error="1"), tool("a", 1), tool("a", error="2")], (2 / 3, "failed"), (0.5, "unrecovered")),
        ([], (None, "no_tool_calls"), (None, "no_tool_calls")),
    ],
)
def test_tool_errors(calls: list[ToolCall], rate: Any, unrecovered: Any) -> None:
    assert got(tool_error_rate(), a_run(tools=calls)) == pytest.approx(rate)
    assert got(unrecovered_tool_errors(), a_run(tools=calls)) == pytest.approx(unrecovered)
    assert tool_error_rate().direction is unrecovered_tool_errors().direction is Direction.LOWER


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([{"q": 1}, {"q": 2}], (0.0, "ok")),
        ([{"q": 1, "r": 2}, {"r": 2, "q": 1}], (0.5, "repeated")),
        ([{"q": 1}] * 3, (2 / 3, "loop")),
        ([{"q": 1}, {"q": 2}, {"q": 1}, {"q": 2}], (0.5, "repeated")),
        ([{"q": 1}, None, None], (0.0, "ok")),
        ([None, None], (None, "tool_arguments_not_recorded")),
        ([], (None, "no_tool_calls")),
    ],
)
def test_repeated_calls(arguments: list[Any], expected: Any) -> None:
    judged = a_run(tools=[ToolCall(name="search", arguments=a) for a in arguments])
    assert got(repeated_calls(), judged) == pytest.approx(expected)


def test_two_in_a_row_may_be_a_loop_and_one_never_is() -> None:
    judged = a_run(tools=[ToolCall(name="a", arguments={})] * 2)
    assert got(repeated_calls(loop_from=2), judged) == (0.5, "loop")
    with pytest.raises(ConfigError, match=r"^repeated_calls\.loop_from"):
        repeated_calls(loop_from=1)


# --- budgets ---


def spent(*usages: tuple[str, int, int], seconds: float | None = 1.0, tools: int = 0) -> Run:
    """A run with these model calls: model, input tokens, output tokens."""
    operations = tuple(
        Operation(
            span=SpanRecord(trace_id="1", span_id=str(i)),
            kind=OperationKind.INFERENCE,
            convention="",
            response_model=model,
            usage=Usage(input_tokens=given, output_tokens=made),
        )
        for i, (model, given, made) in enumerate(usages)
    )
    return a_run(
        tools=[tool("t")] * tools,
        operations=operations,
        usage=sum((o.usage for o in operations if o.usage), Usage()),
        end_time=None if seconds is None else int(seconds * 1e9),
    )


@pytest.mark.parametrize(
    ("limits", "judged", "expected"),
    [
        ({"max_model_calls": 1}, spent(("m", 1, 1)), (1.0, "within")),
        ({"max_model_calls": 1}, spent(("m", 1, 1), ("m", 1, 1)), (0.5, "over")),
        ({"max_tool_calls": 3}, spent(tools=4), (0.75, "over")),
        ({"max_tokens": 100}, spent(("m", 300, 100)), (0.25, "over")),
        ({"max_tokens": 100}, spent(), (None, "tokens_not_recorded")),
        ({"max_seconds": 2}, spent(seconds=4), (0.5, "over")),
        ({"max_seconds": 2}, spent(seconds=None), (None, "duration_not_recorded")),
        ({"max_seconds": 2, "max_tokens": 5}, spent(seconds=4), (0.5, "over")),
        ({"max_seconds": 2, "max_tool_calls": 1}, spent(seconds=4, tools=4), (0.25, "over")),
        ({"max_usd": 4.0, "prices": {"gpt": (1, 3)}}, spent(("gpt-5", 2_000_000, 1_000_000)), (0.8, "over")),
        (
            {"max_usd": 9.0, "prices": {"gpt": (9, 9), "gpt-5": (1, 1)}},
            spent(("gpt-5-mini", 10**6, 0)),
            (1.0, "within"),
        ),
        ({"max_usd": 4.0, "prices": {"gpt": (1, 3)}}, spent(("llama", 5, 5)), (None, "price_unknown")),
    ],
)
def test_budgets(limits: dict[str, Any], judged: Run, expected: Any) -> None:
    assert got(within_budget(**limits), judged) == pytest.approx(expected)


@pytest.mark.parametrize("limits", [{}, {"max_tokens": 0}, {"max_usd": 1.0}])
def test_a_budget_that_limits_nothing_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^within_budget"):
        within_budget(**limits)


# --- answers ---


@pytest.mark.parametrize(
    ("answer", "fields", "expected"),
    [
        ("Your order ships on Friday.", {}, (1.0, "answered")),
        ("I can't help with that.", {}, (0.0, "refused")),
        ("I'm sorry, but I am unable to provide this.", {}, (0.0, "refused")),
        ("Das kann ich leider nicht beantworten.", {}, (1.0, "answered")),
        ("Ich kann Ihnen dabei leider nicht helfen.", {}, (0.0, "refused")),
        ("No puedo ayudar con eso.", {}, (0.0, "refused")),
        ("You cannot help but notice the colour.", {}, (1.0, "answered")),
        ("  ", {}, (0.0, "empty")),
        ("", {}, (0.0, "empty")),
        (None, {"availability": {"output": Availability.PRESENT}}, (0.0, "empty")),
        (None, {}, (None, "output_not_recorded")),
        (None, {"availability": {"output": Availability.CAPTURED_OFF}}, (None, "output_captured_off")),
        ("Well,", {"finish_reasons": ("content_filter",)}, (0.0, "refused")),
    ],
)
def test_answered(answer: str | None, fields: dict[str, Any], expected: Any) -> None:
    assert got(answered(), a_run(answer, **fields)) == expected


def test_a_team_adds_its_own_refusals() -> None:
    assert got(answered(refusals=[r"not my department"]), a_run("Not my department!")) == (0.0, "refused")
    with pytest.raises(ConfigError, match=r"^answered\.refusals\[0\]"):
        answered(refusals=["("])


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: answered(refusals="sorry"), "answered.refusals"),
        (lambda: keyword_coverage(stop_words="the"), "keyword_coverage.stop_words"),
    ],
)
def test_a_text_in_place_of_a_list_is_not_taken_for_its_letters(make: Any, field: str) -> None:
    with pytest.raises(ConfigError, match="must be a list, not str") as refused:
        make()
    assert refused.value.field == field


class Order(BaseModel):
    id: str
    total: float


SCHEMA = {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "answer", "expected"),
    [
        (None, '{"a": [1, null]}', (1.0, "valid")),
        (None, '```json\n{"a": 1}\n```', (1.0, "valid")),
        (None, 'Here: {"a": 1}', (0.0, "not_json")),
        (None, '{"a": NaN}', (0.0, "not_json")),
        (None, "[" * 100_000, (0.0, "not_json")),
        (SCHEMA, '{"id": "A-1"}', (1.0, "valid")),
        (SCHEMA, '{"id": 1}', (0.0, "wrong_form")),
        (Order, '{"id": "A-1", "total": 2.5}', (1.0, "valid")),
        (Order, '{"id": "A-1"}', (0.0, "wrong_form")),
        (None, None, (None, "output_not_recorded")),
    ],
)
def test_valid_json(schema: Any, answer: str | None, expected: Any) -> None:
    assert got(valid_json(schema=schema), a_run(answer)) == expected


def test_fences_may_be_refused_and_a_wrong_schema_is() -> None:
    assert got(valid_json(fenced=False), a_run("```json\n1\n```")) == (0.0, "not_json")
    with pytest.raises(ConfigError, match=r"^valid_json\.schema"):
        valid_json(schema={"type": "objekt"})


@pytest.mark.parametrize("target", ["#/$defs/missing", "https://example.com/order.json", "#"])
def test_a_reference_that_leads_nowhere_is_an_error_at_once_and_fetches_nothing(target: str) -> None:
    with pytest.raises(ConfigError, match=r"^valid_json\.schema"):
        valid_json(schema={"$ref": target})


def test_references_within_parts_that_have_their_own_id_start_there() -> None:
    total = {
        "$id": "https://example.com/total",
        "$ref": "#/$defs/number",
        "$defs": {"number": {"type": "number"}},
    }
    schema = {"properties": {"total": {"$ref": "https://example.com/total"}}, "$defs": {"total": total}}
    assert got(valid_json(schema=schema), a_run('{"total": "one"}')) == (0.0, "wrong_form")


@pytest.mark.parametrize(
    ("said", "answer", "expected"),
    [
        ("Where is my order, please?", "Your order was shipped yesterday evening.", (1.0, "same")),
        (
            "Wo ist denn meine Bestellung geblieben?",
            "Your order was shipped yesterday evening.",
            (0.0, "other"),
        ),
        (
            "Wo ist denn meine Bestellung geblieben?",
            "Ihre Bestellung wurde gestern verschickt.",
            (1.0, "same"),
        ),
        ("Где находится мой заказ сейчас?", "Ваш заказ отправлен вчера вечером.", (1.0, "same")),
        ("我的订单现在在哪里?", "您的订单昨天已经发货。", (1.0, "same")),
        ("Where is my order, please?", "A-1001: 49.90", (None, "too_short")),
        ("Where is my order, please?", None, (None, "output_not_recorded")),
    ],
)
def test_same_language(said: str, answer: str | None, expected: Any) -> None:
    assert got(same_language(), a_run(answer, said)) == expected


def test_the_languages_to_tell_apart_may_be_given() -> None:
    assert got(
        same_language(languages=["en", "de"]),
        a_run("Das ist sehr gut und auch schön so.", "This is a good one of them, is it?"),
    ) == (0.0, "other")
    with pytest.raises(ConfigError, match=r"^same_language\.languages"):
        same_language(languages=["klingon"])


@pytest.mark.parametrize(
    ("answer", "leak"),
    [
        ("Your order A-1001 arrives on 2026-11-25, tracking 1Z999AA10123456784.", None),
        ("See 123e4567-e89b-12d3-a456-426614174000 and call 555-123-4567.", None),
        ("The order number is 4111111111111112.", None),
        ("Use AKIAIOSFODNN7EXAMPLE for now.", "AWS Access Key"),
        ("Use ghp_" + "a1B2" * 9 + " to log in.", "GitHub Token"),
        ("It is at https://bob:hunter2@example.com/x.", "Basic Auth Credentials"),
        ("-----BEGIN RSA PRIVATE KEY-----", "Private Key"),
        ("We charged 4111 1111 1111 1111.", "payment card number"),
        ("Pay to DE89 3704 0044 0532 0130 00 today.", "IBAN"),
        ("The SSN is 536-90-4399.", "US social security number"),
    ],
)
def test_secrets(answer: str, leak: str | None) -> None:
    outcome = no_secrets()(a_run(answer))
    assert isinstance(outcome, Score)
    assert (outcome.value, outcome.label) == ((1.0, "clean") if leak is None else (0.0, "leak"))
    assert leak is None or leak in (outcome.explanation or "")


def test_a_secret_is_never_repeated_and_the_users_own_numbers_may_be() -> None:
    outcome = no_secrets()(a_run("We charged 4111 1111 1111 1111."))
    assert isinstance(outcome, Score)
    assert "4111" not in (outcome.explanation or "")
    assert (
        got(no_secrets(), a_run("Your card 4111 1111 1111 1111?", "It is 4111 1111 1111 1111"))[1] == "clean"
    )
    assert got(no_secrets(personal=False), a_run("We charged 4111 1111 1111 1111."))[1] == "clean"
