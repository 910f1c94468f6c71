"""grounded_in_tools: what counts as a fact, what bears it out, and when it keeps silent."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_evals.model import (
    Availability,
    Document,
    Message,
    NotScored,
    OperationKind,
    Part,
    Run,
    Score,
    ToolCall,
)
from otel_evals.scorers import grounded_in_tools

ORDER = {
    "order_id": "A-1001",
    "customer": {"first_name": "Omar", "last_name": "Davis", "email": "omar.davis@example.com"},
    "items": [
        {"name": "Trail Running Shoes", "price": 89.5, "quantity": 2},
        {"name": "Rain Jacket", "price": 129.0, "quantity": 1},
    ],
    "delivery": "2026-11-25",
    "tracking": "1Z999AA10123456784",
    "window": "14:00",
    "discount": 0.15,
    "rating": 4.5,
}

SIGNED_LINK = f"https://example.com/files/report?token={'a1b2c3d4' * 15}"


def run(answer: str | None, result: Any = ORDER, **fields: Any) -> Run:
    fields.setdefault("input_messages", (said("Where is my order? And what of Paris?"),))
    if result is not None:
        fields.setdefault("tool_calls", (ToolCall(name="get_order", result=result, status="ok"),))
    return Run(
        trace_id="1" * 32, root_span_id="2" * 16, root_kind=OperationKind.AGENT, output=answer, **fields
    )


def said(text: str, role: str = "user") -> Message:
    return Message(role=role, parts=(Part(kind="text", text=text),))


def judge(answer: str | None, result: Any = ORDER, **fields: Any) -> Score | NotScored:
    outcome = grounded_in_tools()(run(answer, result, **fields))
    assert isinstance(outcome, Score | NotScored)
    return outcome


def label(answer: str, result: Any = ORDER, **fields: Any) -> str | None:
    outcome = judge(answer, result, **fields)
    return outcome.label if isinstance(outcome, Score) else outcome.reason


@pytest.mark.parametrize(
    "answer",
    [
        "Your order A-1001 arrives on November 25th.",
        "Order #A1001 arrives on 25 November 2026 at 2 PM.",
        "It arrives on 25.11.2026 between 14:00 and 2:00 pm.",
        "Die Lieferung kommt am 25. November, die Schuhe kosten 89,50 €.",
        "Los zapatos cuestan 89,50 € y llegan el 25 de noviembre.",
        "订单将于2026年11月25日送达,价格为89.50元。",
        "The shoes are $89.50 each and the jacket $129.",
        "The shoes cost about $90.",
        "You bought two pairs at $89.50, $179.00 in all, and a jacket for $129.00: $308.00 together.",
        "The total is $308.",
        "There are 2 products in your order, with a discount of 15%.",
        "We sent it to Omar Davis at omar.davis@example.com.",
        "**Tracking Number:** 1Z999AA10123456784",
        "1. Trail Running Shoes\n2. Rain Jacket\n\nThese are the two items.",
        "The pass costs \u0668\u0669.\u0665 dollars.",
        "It arrives tomorrow, order A-1001.",
        "Certainly! Your jacket, rated 4.5 out of 5, is $129. Kind regards",
        "After a fee of 15% you get $76.08 back.",
        "Please send the number (e.g. B-7777) of order A-1001.",
    ],
)
def test_facts_of_the_tool_result_are_found_in_any_form(answer: str) -> None:
    outcome = judge(answer)
    assert isinstance(outcome, Score), outcome
    assert (outcome.value, outcome.label) == (1.0, "grounded"), outcome.explanation


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        ("The shoes are $79.50 each.", "number", "$79.50"),
        ("The shoes cost about $60.", "number", "$60"),
        ("You get 25% off.", "number", "25%"),
        ("It takes 48 hours.", "number", "48 hours"),
        ("You ordered seven pairs.", "number", "seven"),
        ("It arrives on November 26th.", "date", "November 26th"),
        ("It arrives on 2026-12-25.", "date", "2026-12-25"),
        ("送达日期为2026年11月28日", "date", "2026年11月28日"),
        ("Be there at 16:30.", "time", "16:30"),
        ("Your order A-1002 is on its way.", "identifier", "A-1002"),
        ("Your order A-100 is on its way.", "identifier", "A-100"),
        ("Your confirmation code is HATHAT.", "identifier", "HATHAT"),
        ("Track it with 1Z999AA10123456785.", "identifier", "1Z999AA10123456785"),
        ("See https://example.org/track.", "identifier", "https://example.org/track"),
        ("Call +49 30 1234567 for help.", "identifier", "+49 30 1234567"),
        ("We wrote to omar.davies@example.com.", "identifier", "omar.davies@example.com"),
        ("It goes to Omar Smith.", "name", "Omar Smith"),
        ("It is now in Memphis.", "name", "Memphis"),
        ("DHL has it.", "name", "DHL"),
        ("- Carrier: FedEx", "name", "FedEx"),
        ("Посылку получит Иван Петров.", "name", "Иван Петров"),
    ],
)
def test_a_planted_fact_is_found_and_named(answer: str, kind: str, text: str) -> None:
    outcome = judge(answer)
    assert isinstance(outcome, Score)
    assert outcome.label == "ungrounded"
    assert f'{kind} "{text}"' in (outcome.explanation or "")


def test_the_score_is_the_share_of_distinct_facts() -> None:
    outcome = judge("Order A-1001, order A-1001 again, costs $308 and arrives on 2026-11-25 at 16:30.")
    assert isinstance(outcome, Score)
    assert outcome.value == pytest.approx(3 / 4)
    assert outcome.steps[0].result[0] == {"kind": "identifier", "text": "A-1001", "found": True}


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ("It is 22 °C in Paris.", {"temperature": 21.7}),
        ("It is 71°F in Paris.", {"celsius": 21.7}),
        ("The flight takes 2 hours.", {"duration_minutes": 120}),
        ("You have two weeks to return it.", "Returns are accepted within 14 days."),
        ("The price is $49.90.", {"price_cents": 4990}),
        ("About 1.2 million people live there.", {"population": 1_214_000}),
        ("Your balance is 1.234,50 EUR.", "balance: 1,234.50"),
        ("Sie haben 1 234,50 € Guthaben.", {"balance": 1234.5}),
        ("It was sent on November 14, 2023.", {"sent_at": 1_700_000_000}),
        ("You have 3 open orders.", {"orders": [{"id": i, "state": "open"} for i in "abc"]}),
        ("2 of them are paid.", [{"paid": "yes"}, {"paid": "yes"}, {"paid": "no"}]),
        ("Two are paid.", '[{"paid": "yes"}, {"paid": "yes"}, {"paid": "no"}]'),
        ("You pay 3 x $50 = $150.", {"fee": 50, "bags": 3}),
        ("Your card ending in 7803 was charged.", {"last_four": "7803"}),
        ("Order 1001 was found.", {"order_id": "A-1001"}),
        ("$201 remain after paying $299.", {"certificate": 500, "price": 299}),
        ("You fly to Las Vegas (LAS).", {"destination": "LAS"}),
        ("See https://app.example.com/#/orders/5.", {"link": "https://app.example.com/#/orders/5"}),
        (f"See {SIGNED_LINK}.", {"link": SIGNED_LINK}),
        ("Call (415) 555-2671.", {"phone": "+14155552671"}),
        ("It leaves at 3:45 PM.", {"departure": "2026-11-25T15:45:00-08:00"}),
        ("It leaves at 2026-11-25T15:45:00Z.", {"departure": "2026-11-25T15:45:00Z"}),
        ("Ankunft um 15.45 Uhr.", {"arrival": "15:45"}),
        ("Ankunft um 15 Uhr.", {"arrival": "15:00"}),
        ("Arriv\u00e9e \u00e0 15h45.", {"arrival": "15:45"}),
        ("Ask Jane Doe.", {"doctor": "Jane Doe"}),
        ("It takes 2 hours and 30 minutes.", {"minutes": 150}),
        ("It takes 1 day, 2h and 5m.", {"seconds": 93_900}),
        ("It takes 1 hour 30 min.", {"hours": 1.5}),
        ("It takes 150 minutes.", {"duration": "PT2H30M"}),
        ("It takes 45 minutes.", {"duration": "PT45M"}),
        ("It takes 2 hours and 30 minutes.", {"hours": 2, "minutes": 30}),
        ("Use 2½ cups of milk and ¾ of salt.", {"milk": 2.5, "salt": 0.75}),
        ("The p-value is .05, and it costs $.99.", {"p": 0.05, "cost": 0.99}),
        ("Es hat 2,5 Millionen Nutzer.", {"Nutzer": 2_500_000}),
        ("Custa 20 mil reais.", {"preço": 20_000}),
        ("Ankunft am 25.11.", {"arrival": "2026-11-25"}),
        ("IBAN DE89 3704 0044 0532 0130 00.", {"iban": "DE89370400440532013000"}),
        ("Card 4111 1111 1111 1111 was charged.", {"card": "4111111111111111"}),
        ("It is v2.3.1, on Python 3.11.", {"version": "2.3.1", "python": "3.11.7"}),
        ("It is 2.3.1.", {"version": "v2.3.1"}),
        ("### 1.2 Price\n1.2.1 Today\nIt is $5.", {"price": 5}),
        ("The API returned 503.", {"status": 503}),
    ],
)
def test_what_a_reader_can_work_out_counts_as_found(answer: str, result: Any) -> None:
    assert label(answer, result) == "grounded"


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ("It is 24 °C in Paris.", {"temperature": 21.7}),
        ("You have 4 open orders.", {"orders": [{"id": i} for i in "abc"]}),
        ("The price is $49.80.", {"price_cents": 4990}),
        ("That is $31.40.", [{"price": 10.1}, {"price": 20.3}]),
        ("It starts at 9:15.", {"at": "2026-11-25T08:15:00Z"}),
        ("The sum is 308.", {"ids": ["3-0-8"]}),
        ("It starts at 8:00.", {"at": "2026-11-25T09:15:00+08:00"}),
        (f"See {SIGNED_LINK}.", {"link": f"{SIGNED_LINK[:-1]}x"}),
        ("Call (415) 555-2671.", {"phone": "+14155552672"}),
        ("Arriv\u00e9e \u00e0 15h45.", {"arrival": "15:46"}),
        ("<td>91.50</td>", {"price": 89.5}),
        ("It takes 2 hours and 35 minutes.", {"minutes": 150}),
        ("Use 21 cups.", "Use 2½ cups of flour."),
        ("Es hat 6 Millionen Nutzer.", {"Nutzer": 5_000_000}),
        ("Ankunft am 26.11.", {"arrival": "2026-11-25"}),
        ("IBAN DE89 3704 0044 0532 0130 01.", {"iban": "DE89370400440532013000"}),
        ("It is 2.3.2.", {"version": "2.3.1"}),
        ("The address is 192.168.1.2.", {"ip": "192.168.1.1"}),
    ],
)
def test_what_does_not_follow_is_not_found(answer: str, result: Any) -> None:
    assert label(answer, result) == "ungrounded"


REPORT = """A report on the race: Anna Kask of WA and the Latvian Juris Ozols led the 2011/12 season. The road
is 3.45 miles long. Police said that armed robbers took £50,000 from a van in Turkey; the guards, born in 1950
and 1981, wait for a ruling within 5 business days, and 10 shops stay closed. Sales rose by half, to 340 and
120."""


@pytest.mark.parametrize(
    "answer",
    [
        "The report names two racers, Anna Kask and Juris Ozols.",
        "It is about Anna Kask\u2019s season in Western Australia.",
        "Riders from Turkey and Latvia took part in the 2012 season.",
        "The 3.45-mile road was used in the 2011-12 season.",
        "There was a Turkish van.",
        "The two are 31 years apart.",
        "Together 460 were sold, a difference of 220.",
        "Sales rose by 50%.",
        "Five robberies are mentioned beside the race in 2011.",
    ],
)
def test_what_running_text_says_in_other_forms_raises_no_alarm(answer: str) -> None:
    assert label(answer, REPORT) in ("grounded", "no_claims")


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ("It ships to Oregon.", {"state": "OR"}),
        ("It ships to Reno, NV.", "The customer lives in Reno, Nevada."),
        ("It ships to Quebec.", {"province": "QC"}),
        (
            "A Norwegian diver found it.",
            "the diver came from norway and found the wreck off the coast at her third attempt",
        ),
        ("It grows in Northern Australia.", "it is a north australian plant with yellow flowers"),
        ("It cost €1,250 in 2014.", "It cost €1,250.Prices have risen since 2014.Today it costs more."),
        ("The 2013 season was long.", "The 2012 - 13 season was long."),
        ("Order 77 has the size Small.", {"order": 77, "size": "S"}),
        ("The father is Omar Davis Sr.", {"name": "Omar Davis"}),
    ],
)
def test_names_and_years_are_found_in_the_forms_that_evidence_has(answer: str, result: Any) -> None:
    assert label(answer, result) == "grounded"


LAMPS = {
    str(n): {
        "id": str(n),
        "options": {"colour": colour, "size": size},
        "available": available,
        "price": price,
    }
    for n, (colour, size, available, price) in enumerate(
        [
            ("green", "tall", True, 31.15),
            ("green", "low", True, 42.4),
            ("white", "tall", False, 27.33),
            ("white", "low", True, 58.9),
            ("amber", "tall", True, 61.07),
        ],
        start=9001,
    )
}


@pytest.mark.parametrize(
    "answer",
    [
        "There are 4 available lamps.",
        "Three tall lamps are listed.",
        "Two available lamps are tall and 1 is not.",
        "Of these lamps, 3 are not green.",
        "The green ones cost $73.55 in total.",
        "The price difference is $27.75.",
        "You save $3.82.",
        "All three tall ones cost $119.55 together.",
    ],
)
def test_rows_that_an_answer_describes_are_counted_and_their_amounts_added_up(answer: str) -> None:
    outcome = judge(answer, {"name": "Lamp", "variants": LAMPS})
    assert isinstance(outcome, Score)
    assert outcome.label == "grounded", outcome.explanation


@pytest.mark.parametrize(
    "answer",
    [
        "There are six available lamps.",
        "Four tall lamps are listed.",
        "Of these lamps, 4 are not green.",
        "The green ones cost $74.55 in total.",
        "The price difference is $27.76.",
        "The lamp is $73.55.",
    ],
)
def test_wrong_counts_and_amounts_of_rows_are_not_found(answer: str) -> None:
    assert label(answer, {"name": "Lamp", "variants": LAMPS}) == "ungrounded"


def test_rows_of_several_results_are_counted_together_and_repeated_results_once() -> None:
    orders = [{"items": [{"name": "Kettle"}, {"name": name}]} for name in ("Teapot", "Kettle", "Mug")]
    calls = tuple(ToolCall(name="get", result=order, status="ok") for order in (*orders, orders[0]))
    assert label("You ordered four kettles.", None, tool_calls=calls) == "grounded"
    assert label("You ordered seven kettles.", None, tool_calls=calls) == "ungrounded"


def test_sums_of_many_round_amounts_support_nothing() -> None:
    fares = [{"fare": fare} for fare in range(100, 1000, 37)]
    assert label("The difference is $222.", fares[:4]) == "ungrounded"
    assert label("The difference is $74.", fares[:4]) == "grounded"
    assert label("The difference is $74.", fares) == "ungrounded"


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (
            "Two films are named.",
            "In the 1995 film a dog, and in a later film a cat, find their way home alone.",
        ),
        (
            "Three tremors are named.",
            "The 4.8 tremor and a later tremor did no harm, officials in the town said.",
        ),
    ],
)
def test_a_year_or_a_measure_is_no_other_count_of_the_same_things(answer: str, result: str) -> None:
    assert label(answer, result + " Nobody was hurt, and the road is open again.") == "no_claims"


def test_unlike_numbers_do_not_contradict_each_other() -> None:
    outcome = judge(
        "It won the 2013 festival.", "The film won 12 festival prizes, 4.5 festival prizes a year."
    )
    assert isinstance(outcome, Score)
    assert "contradicted" not in (outcome.explanation or "")


@pytest.mark.parametrize(
    ("answer", "result", "kind", "text", "instead"),
    [
        ("The shoes are $79.50 each.", ORDER, "number", "$79.50", "89.5"),
        ("Order A-1002 is on its way.", ORDER, "identifier", "A-1002", "A-1001"),
        ("They took £70,000 from a van.", REPORT, "number", "£70,000", "£50,000"),
        ("A ruling comes within 10 business days.", REPORT, "number", "10", "5"),
        ("Four shops stay closed.", REPORT, "number", "Four", "10"),
        ("It was led by Anna Ozols.", "Led by Anna Kask.", "name", "Anna Ozols", "Anna Kask"),
        (
            "The delivery date is 2026-12-01.",
            {"delivery_date": "2026-11-25"},
            "date",
            "2026-12-01",
            "2026-11-25",
        ),
    ],
)
def test_a_fact_that_the_results_tell_otherwise_is_told_from_one_found_nowhere(
    answer: str, result: Any, kind: str, text: str, instead: str
) -> None:
    outcome = judge(answer, result)
    assert isinstance(outcome, Score)
    said = f'contradicted (counts twice): {kind} "{text}" (evidence: "{instead}")'
    assert (outcome.explanation or "").startswith(said)
    assert (outcome.explanation or "").endswith(" unsupported")
    assert {"kind": kind, "text": text, "found": False, "instead": instead} in outcome.steps[0].result


def test_of_several_values_that_may_be_meant_none_is_named() -> None:
    rows = [{"flight": f"HAT{n}", "price": price} for n, price in ((101, 90), (202, 95))]
    outcome = judge("Flight HAT303 has a price of $93.", rows)
    assert isinstance(outcome, Score)
    assert "contradicted" not in (outcome.explanation or "")


def test_a_contradiction_weighs_twice_what_absence_does() -> None:
    absent = judge("Order A-1001 arrives on November 25th and weighs 61 kg.")
    against = judge("The shoes of order A-1001 have a price of $79.50. They arrive on November 25th.")
    assert isinstance(absent, Score)
    assert isinstance(against, Score)
    assert absent.value == pytest.approx(2 / 3)
    assert against.value == pytest.approx(2 / 4)
    assert "found nowhere: number" in (absent.explanation or "")


def test_a_count_that_only_a_reader_can_check_is_not_judged() -> None:
    outcome = judge("Seven guards watch the £50,000.", REPORT)
    assert isinstance(outcome, Score)
    assert [step["text"] for step in outcome.steps[0].result] == ["£50,000"]
    assert label("Seven guards watch it.", REPORT) == "no_claims"
    assert label("You have seven orders.", {"orders": [{"id": i} for i in "abc"]}) == "ungrounded"


def test_the_users_words_earlier_turns_documents_and_instructions_are_evidence() -> None:
    fields: dict[str, Any] = {
        "input_messages": (said("I paid $12.34"),),
        "history": (said("It weighs 77 kg", "assistant"), said("ticket TK-9", "user")),
        "documents": (Document(content="Shipping takes 41 days", metadata={"page": 913}),),
        "system_instructions": "Refunds take 65 days.",
    }
    answer = "You paid $12.34 for TK-9, 77 kg; shipping takes 41 days, refunds 65 days, see page 913."
    assert label(answer, **fields) == "grounded"
    assert label(answer) == "ungrounded"


def test_arguments_of_a_call_count_only_when_it_did_not_fail() -> None:
    def outcome(status: Any, error: str | None) -> str | None:
        call = ToolCall(
            name="book", arguments={"seat": "14C"}, result={"ok": True}, status=status, error=error
        )
        return label("You have seat 14C.", None, tool_calls=(call,))

    assert outcome("ok", None) == "grounded"
    assert outcome("error", "seat taken") == "ungrounded"


def test_tool_results_of_an_earlier_turn_are_enough_to_check_against() -> None:
    earlier = Message(role="tool", parts=(Part(kind="tool_result", data={"total": 77.5}),))
    assert label("You paid $77.50.", None, history=(earlier,)) == "grounded"


@pytest.mark.parametrize(
    ("answer", "fields", "reason"),
    [
        ("Happy to help! What else?", {}, "no_claims"),
        ("1. First\n2. Second", {}, "no_claims"),
        ("It costs $5.", {"tool_calls": ()}, "no_tool_results"),
        (None, {}, "output_not_recorded"),
        (None, {"availability": {"output": Availability.CAPTURED_OFF}}, "output_captured_off"),
        ("It costs $5.", {"tool_calls": (ToolCall(name="t"),)}, "tool_results_not_recorded"),
        (
            "It costs $7.",
            {"availability": {"tool_results": Availability.TRUNCATED}},
            "tool_results_truncated",
        ),
        (
            "It costs $5.",
            {
                "tool_calls": (ToolCall(name="t"),),
                "availability": {"tool_results": Availability.CAPTURED_OFF},
            },
            "tool_results_captured_off",
        ),
    ],
)
def test_it_says_why_it_does_not_score(answer: str | None, fields: dict[str, Any], reason: str) -> None:
    outcome = judge(answer, **fields)
    assert isinstance(outcome, NotScored)
    assert outcome.reason == reason
    assert outcome.explanation


def test_truncated_results_still_bear_out_what_they_hold() -> None:
    truncated = {"tool_results": Availability.TRUNCATED}
    assert label("The jacket is $129.", availability=truncated) == "grounded"


@given(st.decimals(min_value=1, max_value=99_999, places=2))
def test_every_amount_that_stands_in_the_result_is_found(amount: Any) -> None:
    assert label(f"It costs ${amount:,}.", {"price": float(amount)}) == "grounded"


def assert_linear(work: Callable[[int], object], size: int) -> None:
    """Four times the work takes about four times as long, not sixteen; a busy machine gets some tries."""

    def seconds(size: int) -> float:
        began = time.process_time()
        work(size)
        return time.process_time() - began

    growth = []
    for _ in range(4):
        growth.append(seconds(size) / max(seconds(size // 4), 0.02))
        if growth[-1] < 9:
            return
    raise AssertionError(f"four times the text took {min(growth):.1f} times as long")


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "a" * 50_000 + "@",
        "1" * 50_000,
        "1." * 25_000,
        "1 000 " * 8_000,
        "+1 1 1 " * 6_000,
        "A-" * 25_000,
        "Aa " * 16_000,
        "(e.g. " * 8_000,
        "**" * 25_000,
        "2026-11-25 " * 4_000,
        "$1.50 " * 8_000,
        "two " * 12_000,
        "A.B." * 12_000,
        "Ab-" * 16_000,
        "twenty-" * 7_000,
        "a1-" * 16_000,
        "\ufdfa" * 50_000,
        "&amp;" * 10_000,
    ],
)
def test_long_monotonous_text_takes_no_longer_than_other_text(text: str) -> None:
    def judge_part(size: int) -> None:
        judge(text[: size // 5] + " costs $7", {"text": text[:size]})

    assert_linear(judge_part, len(text))


@pytest.mark.slow
def test_more_facts_than_anyone_reads_are_judged_in_bounded_time() -> None:
    days = [f"{1900 + i % 200}-{i % 12 + 1:02}-{i % 28 + 1:02} ${i}.50 A-{i}" for i in range(1_500)]

    def judge_part(size: int) -> None:
        dates = " ".join(days[:size])
        assert isinstance(judge(dates, {"text": dates[::-1] + dates}), Score | NotScored)

    assert_linear(judge_part, len(days))


@pytest.mark.parametrize(
    "figure",
    [
        1e308,
        1e-308,
        float("nan"),
        float("inf"),
        -0.0,
        10**400,
        pytest.param(10**5000, id="endless"),
        "1e999999999",
    ],
)
def test_numbers_beyond_all_sense_are_survived(figure: Any) -> None:
    answer = "It costs $7 (15%), about 3 million, on 2026-01-01."
    assert label(answer, {"a": figure, "b": [figure, 2]}) == "ungrounded"
