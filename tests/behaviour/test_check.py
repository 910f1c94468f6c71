"""Answers that are checked before they leave: `check`, `check_sync` and `guard`."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import otel_evals
from otel_evals import NotScored, Rule, Run, Verdict, sampling, scorer
from otel_evals.errors import ConfigError
from otel_evals.model import Direction
from otel_evals.scorers import answered, grounded_in_tools
from otel_evals_instrumentation import agent, tool
from tests.behaviour.app import App
from tests.support.waits import eventually

GROUNDED = grounded_in_tools()
RIGHT, WRONG = "It arrives on 2026-11-25.", "It arrives on 2026-12-24."


def checked_app(*rules: Any, **options: Any) -> App:
    """An application whose runs can be checked for a while after their end."""
    return App(*rules, **{"grace": 5.0, **options})


def support(app: App, work: Callable[[], Any], name: str = "support") -> Any:
    """Run an agent that looks an order up, and then does something; returns its answer."""
    options: Any = {"capture_content": True, "tracer_provider": app.provider}

    @tool("lookup_order", **options)
    def lookup(order_id: str) -> dict[str, str]:
        return {"eta": "2026-11-25"}

    @agent(name, **options)
    def run(question: str) -> Any:
        lookup("A-1001")
        return work()

    return run("Where is order A-1001?")


@pytest.mark.parametrize(
    ("answer", "status", "effect", "value"),
    [(RIGHT, "pass", "allowed", 1.0), (WRONG, "fail", "blocked", 0.0)],
)
def test_an_open_run_is_judged_once(answer: str, status: str, effect: str, value: float) -> None:
    """The check takes the place of the rule: in counters, on the event, on the span and in the record."""
    app = checked_app(GROUNDED, answered(), evaluation_spans="off")
    verdict = support(app, lambda: otel_evals.check_sync(GROUNDED, answer, deadline=5))
    assert (verdict.status, verdict.effect, verdict.allowed) == (status, effect, effect == "allowed")
    assert verdict.score is not None
    assert verdict.score.value == value

    by_name = {each.scorer_id: each for each in app.settle()}
    checked, other = by_name["grounded_in_tools"], by_name["answered"]
    assert (checked.verdict, checked.effect, checked.sampled.probability) == (status, effect, 1.0)
    assert (other.verdict, other.effect) == (None, None)
    rule = app.rule("grounded_in_tools")
    assert (rule.eligible, rule.sampled, rule.scored) == (1, 1, 1)
    names = [event.attributes["gen_ai.evaluation.name"] for event in app.events()]
    assert sorted(names) == ["answered", "grounded_in_tools"]
    (event,) = [e for e in app.events() if e.attributes["gen_ai.evaluation.name"] == "grounded_in_tools"]
    assert event.attributes["otel_evals.check.verdict"] == status
    assert event.attributes["otel_evals.check.effect"] == effect
    attributes = app.span().attributes
    assert attributes["otel_evals.score.grounded_in_tools"] == value
    assert attributes["otel_evals.score.grounded_in_tools.verdict"] == status
    assert attributes["otel_evals.score.grounded_in_tools.effect"] == effect


def test_the_event_is_on_the_current_span() -> None:
    app = checked_app(GROUNDED)

    def deeper() -> int:
        with app.tracer.start_as_current_span("answering") as span:
            otel_evals.check_sync(GROUNDED, RIGHT, deadline=5)
            return span.get_span_context().span_id

    here = support(app, deeper)
    app.settle()
    (event,) = app.events()
    assert event.span_id == here


def test_without_an_answer_the_recorded_one_is_judged() -> None:
    app = checked_app(GROUNDED)
    with app.tracer.start_as_current_span("POST /chat"):
        support(app, lambda: WRONG)
        assert otel_evals.check_sync(GROUNDED, deadline=5).status == "fail"
    (evaluation,) = app.settle()
    assert evaluation.effect == "blocked"


def numbered(value: Any, *, direction: Direction = Direction.HIGHER, scale: float | None = 1.0) -> Any:
    """A scorer that always does the same."""

    def judge(run: Run) -> Any:
        if isinstance(value, BaseException):
            raise value
        return value

    return scorer(id="numbered", version="1", direction=direction, scale=scale)(judge)


LOWER = Direction.LOWER


@pytest.mark.parametrize(
    ("judge", "options", "expected"),
    [
        (numbered(1.0), {}, ("pass", "allowed", None)),
        (numbered(0.99), {}, ("fail", "blocked", None)),
        (numbered(0.7), {"threshold": 0.7}, ("pass", "allowed", None)),
        (numbered(0.69), {"threshold": 0.7}, ("fail", "blocked", None)),
        (numbered(4.0, scale=5.0), {}, ("fail", "blocked", None)),
        (numbered(5.0, scale=5.0), {}, ("pass", "allowed", None)),
        (numbered(0.0, direction=LOWER), {}, ("pass", "allowed", None)),
        (numbered(0.3, direction=LOWER), {}, ("fail", "blocked", None)),
        (numbered(0.3, direction=LOWER), {"threshold": 0.3}, ("pass", "allowed", None)),
        (numbered(7.0, scale=None), {"threshold": 5}, ("pass", "allowed", None)),
        (numbered(-2.0, scale=None), {"threshold": -3}, ("pass", "allowed", None)),
        (numbered(0.0), {"on_fail": "rewrite"}, ("fail", "rewritten", None)),
        (numbered(0.0), {"on_fail": "allow"}, ("fail", "allowed", None)),
        (numbered(KeyError("order")), {}, ("undecided", "allowed", "KeyError")),
        (numbered(KeyError("order")), {"on_error": "block"}, ("undecided", "blocked", "KeyError")),
        (numbered(NotScored(reason="no_claims")), {}, ("undecided", "allowed", "no_claims")),
        (
            numbered(SystemExit()),
            {"on_error": "block", "on_fail": "rewrite"},
            ("undecided", "rewritten", "SystemExit"),
        ),
        (numbered(float("nan")), {}, ("undecided", "allowed", "ValueError")),
    ],
)
def test_a_verdict_follows_from_the_outcome_and_the_options(
    judge: Any, options: Any, expected: tuple[str, str, str | None]
) -> None:
    app = checked_app(judge)
    verdict = support(app, lambda: otel_evals.check_sync(judge, RIGHT, deadline=5, **options))
    assert (verdict.status, verdict.effect, verdict.reason) == expected
    (evaluation,) = app.settle()
    assert (evaluation.verdict, evaluation.effect) == expected[:2]


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("deadline", {"deadline": 0}),
        ("deadline", {"deadline": float("inf")}),
        ("deadline", {"deadline": 1e10}),
        ("threshold", {"threshold": 1.5}),
        ("threshold", {"threshold": "high"}),
        ("on_error", {"on_error": "raise"}),
        ("on_fail", {"on_fail": "raise"}),
        ("scorer", {"scorer": "grounded_in_tool"}),
        ("threshold", {"scorer": numbered(1.0, scale=None)}),
        ("threshold", {"scorer": numbered(1.0, scale=None), "threshold": float("nan")}),
        ("threshold", {"scorer": numbered(1.0, scale=None), "threshold": -(10**400)}),
    ],
)
def test_wrong_options_raise(field: str, options: Any) -> None:
    judge = options.pop("scorer", GROUNDED)
    with pytest.raises(ConfigError, match=field):
        otel_evals.check_sync(judge, RIGHT, **options)
    if field != "on_fail":
        with pytest.raises(ConfigError, match=field):
            otel_evals.guard(judge, fallback="", **options)


def gated(gate: threading.Event) -> Any:
    @scorer(id="gated", version="1")
    def judge(run: Run) -> float:
        gate.wait(10)
        return 0.0

    return judge


def test_after_the_deadline_the_score_still_comes_with_what_was_decided() -> None:
    gate = threading.Event()
    judge = gated(gate)
    app = checked_app(judge)
    verdict = support(app, lambda: otel_evals.check_sync(judge, RIGHT, deadline=0.05, on_error="block"))
    assert (verdict.status, verdict.effect, verdict.reason) == ("undecided", "blocked", "deadline")
    assert app.rule("gated").pending == 1
    gate.set()
    (evaluation,) = app.settle()
    assert (evaluation.status, evaluation.verdict, evaluation.effect) == ("scored", "undecided", "blocked")
    assert app.rule("gated").sampled == 1


def test_a_cancelled_caller_leaves_an_evaluation_without_an_effect() -> None:
    gate = threading.Event()
    judge = gated(gate)
    app = checked_app(judge)

    async def call() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await otel_evals.check(judge, RIGHT, deadline=10)

    support(app, lambda: asyncio.run(call()))
    gate.set()
    (evaluation,) = app.settle()
    assert (evaluation.status, evaluation.verdict, evaluation.effect) == ("scored", "undecided", None)


def test_the_reasons_for_finding_nothing() -> None:
    assert otel_evals.check_sync(GROUNDED, RIGHT).reason == "not_configured"
    app = checked_app(GROUNDED)
    assert otel_evals.check_sync(GROUNDED, RIGHT).reason == "no_run"
    with app.tracer.start_as_current_span("POST /chat"):
        assert otel_evals.check_sync(GROUNDED, RIGHT, deadline=5).reason == "no_run"
    with TracerProvider().get_tracer("other").start_as_current_span("elsewhere"):
        assert otel_evals.check_sync(GROUNDED, RIGHT, deadline=5).reason == "not_captured"
    other = numbered(1.0)
    same_id = scorer(id="grounded_in_tools")(lambda run: True)
    assert support(app, lambda: otel_evals.check_sync(same_id, RIGHT, deadline=5)).reason == "other_version"
    assert support(app, lambda: otel_evals.check_sync(other, RIGHT, deadline=5)).status == "pass"
    app.settle()
    rules = otel_evals.stats().rules
    assert rules["grounded_in_tools"].dropped == {"no_run": 2, "not_captured": 1, "other_version": 1}
    assert rules["numbered"].scored == 1, "a scorer without a rule counts as if it had one"
    app.pipeline.shutdown()
    assert support(app, lambda: otel_evals.check_sync(GROUNDED, RIGHT, deadline=5)).reason == "shutdown"


def test_an_unsampled_trace_is_not_judged() -> None:
    app = checked_app(GROUNDED, tracing={"sampler": ALWAYS_OFF})
    verdict = support(app, lambda: otel_evals.check_sync(GROUNDED, WRONG))
    assert (verdict.status, verdict.reason) == ("undecided", "trace_not_sampled")


def test_rules_may_sample_less_than_is_checked() -> None:
    """The first check switches capture on; its own trace began before."""
    app = checked_app(Rule(GROUNDED, sample=sampling.never()))
    first = support(app, lambda: otel_evals.check_sync(GROUNDED, RIGHT, deadline=5))
    assert first.reason == "not_captured"
    assert support(app, lambda: otel_evals.check_sync(GROUNDED, WRONG, deadline=5)).status == "fail"
    support(app, lambda: RIGHT)
    assert [e.effect for e in app.settle()] == ["blocked"]
    rule = app.rule("grounded_in_tools")
    assert (rule.scored, rule.not_sampled) == (1, {"sampled_out": 2})


def test_explain_names_the_check_instead_of_the_sampler() -> None:
    app = checked_app(Rule(GROUNDED, sample=sampling.never()), answered())
    traces: list[int] = []

    def checked() -> str:
        traces.append(trace.get_current_span().get_span_context().trace_id)
        otel_evals.check_sync(GROUNDED, RIGHT, deadline=5)
        return RIGHT

    support(app, checked)
    app.settle()
    text = str(otel_evals.explain(traces[0]))
    assert "sampled by check" in text
    assert "the answer was allowed" in text


def test_a_stuck_engine_does_not_hold_the_caller() -> None:
    gate = threading.Event()

    @scorer(id="stuck", version="1", inline=True)
    def judge(run: Run) -> float:
        gate.wait(10)
        return 1.0

    app = checked_app(judge)
    verdict = support(app, lambda: otel_evals.check_sync(judge, RIGHT, deadline=0.02))
    assert not gate.is_set()
    assert verdict.reason == "deadline"
    gate.set()
    assert [e.verdict for e in app.settle()] == ["undecided"]


def test_without_asyncio_an_awaited_check_is_undecided() -> None:
    checked_app(GROUNDED)
    with pytest.raises(StopIteration) as done:
        otel_evals.check(GROUNDED, RIGHT).send(None)
    assert done.value.value.reason == "no_event_loop"


def test_a_second_check_is_a_later_revision() -> None:
    app = checked_app(GROUNDED)

    def twice() -> str:
        assert not otel_evals.check_sync(GROUNDED, WRONG, deadline=5, on_fail="rewrite").allowed
        assert otel_evals.check_sync(GROUNDED, RIGHT, deadline=5).allowed
        return RIGHT

    support(app, twice)
    last = max(app.settle(), key=lambda evaluation: evaluation.revision)
    assert (last.revision, last.verdict, last.effect) == (2, "pass", "rewritten")
    assert len({evaluation.evaluation_id for evaluation in app.scored.evaluations}) == 1
    assert app.span().attributes["otel_evals.score.grounded_in_tools"] == 1.0


@pytest.mark.parametrize("twice", [False, True])
def test_a_check_that_outlives_its_run_is_on_the_span_unless_a_later_one_is(twice: bool) -> None:
    ends = threading.Event()

    @scorer(id="slow", version="1")
    def judge(run: Run) -> float:
        if run.output == "second":
            return 0.9
        ends.wait(30)
        return 0.1

    app = App(Rule(judge, concurrency=2), hold=60, grace=0.01)

    def work() -> str:
        assert otel_evals.check_sync(judge, "first", deadline=0.01).status == "undecided"
        if twice:
            assert otel_evals.check_sync(judge, "second", deadline=30).status == "fail"
        return RIGHT

    support(app, work)
    eventually(lambda: otel_evals.stats().eligible == 1)  # the run has closed
    ends.set()
    assert [e.revision for e in app.settle()] == ([2, 1] if twice else [1])
    assert app.span().attributes["otel_evals.score.slow"] == (0.9 if twice else 0.1)


def test_cascades_follow_a_check() -> None:
    after = scorer(id="after", version="1")(lambda run: 1.0)
    app = checked_app(GROUNDED, Rule(after, sample=sampling.below("grounded_in_tools", 0.5)))
    for answer in (RIGHT, WRONG):
        support(app, lambda answer=answer: otel_evals.check_sync(GROUNDED, answer, deadline=5))
    assert sorted(e.scorer_id for e in app.settle()) == [
        "after",
        "grounded_in_tools",
        "grounded_in_tools",
    ]


def test_a_cascade_waits_for_a_check_that_outlives_its_run() -> None:
    gate = threading.Event()
    judge, after = gated(gate), scorer(id="after", version="1")(lambda run: 1.0)
    app = checked_app(judge, Rule(after, sample=sampling.below("gated", 0.5)), grace=0.0)
    support(app, lambda: otel_evals.check_sync(judge, RIGHT, deadline=0.02))
    eventually(lambda: app.pipeline.stats().seen)
    gate.set()
    assert sorted(e.scorer_id for e in app.settle()) == ["after", "gated"]


def test_a_run_that_never_ends_is_delivered_at_shutdown() -> None:
    app = checked_app(GROUNDED)
    with app.tracer.start_as_current_span(
        "invoke_agent a", attributes={"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}
    ):
        otel_evals.check_sync(GROUNDED, "It costs $5.", deadline=5)
        otel_evals.shutdown()
        (evaluation,) = app.scored.evaluations
    assert evaluation.verdict == "undecided"


def test_what_leaves_is_redacted_and_so_is_the_verdict() -> None:
    key = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3
    judge = scorer(id="quotes", version="1")(
        lambda run: otel_evals.Score(value=0.0, explanation=f"it says {run.output}")
    )
    app = checked_app(judge)
    verdict = support(app, lambda: otel_evals.check_sync(judge, f"The key is {key}.", deadline=5))
    assert verdict.explanation
    assert key not in verdict.explanation
    otel_evals.shutdown()
    app = checked_app(judge, capture_content=False)
    verdict = support(app, lambda: otel_evals.check_sync(judge, "Hello.", deadline=5))
    assert (verdict.status, verdict.explanation) == ("fail", None)


def test_a_scorer_cannot_check() -> None:
    seen: list[Verdict] = []

    @scorer(version="1")
    def curious(run: Run) -> float:
        seen.append(otel_evals.check_sync(GROUNDED, "nested"))
        return 1.0

    app = checked_app(curious)
    support(app, lambda: RIGHT)
    app.settle()
    assert [each.reason for each in seen] == ["inside_evaluation"]


def test_each_thread_gets_the_verdict_of_its_own_run() -> None:
    app = checked_app(GROUNDED)

    def one(number: int) -> str:
        answer = RIGHT if number % 2 else WRONG
        verdict: Verdict = support(app, lambda: otel_evals.check_sync(GROUNDED, answer, deadline=20))
        return verdict.status

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(40))) == ["fail", "pass"] * 20
    assert len(app.settle()) == 40


def test_under_overload_the_newest_check_comes_first() -> None:
    gate = threading.Event()
    order: list[str | None] = []

    @scorer(id="ordered", version="1")
    def judge(run: Run) -> float:
        order.append(run.agent_name)
        gate.wait(10)
        return 1.0

    app = checked_app(Rule(judge, concurrency=1))
    with ThreadPoolExecutor(3) as pool:
        for number, name in enumerate(("first", "second", "third"), 1):
            pool.submit(support, app, lambda: otel_evals.check_sync(judge, RIGHT, deadline=20), name)
            app.await_rule("ordered", lambda rule, number=number: rule.pending == number)
        gate.set()
    assert order == ["first", "third", "second"]


def test_of_overlapping_runs_the_answer_names_the_one_to_judge() -> None:
    app = checked_app(GROUNDED)
    both = threading.Barrier(2)
    with app.tracer.start_as_current_span("POST /chat"), ThreadPoolExecutor(2) as pool:
        for answer in (RIGHT, WRONG):
            here = contextvars.copy_context()
            pool.submit(here.run, support, app, lambda answer=answer: (both.wait(10), answer)[1])
        pool.shutdown()
        assert otel_evals.check_sync(GROUNDED, "It is there.", deadline=5).reason == "no_run"
        assert otel_evals.check_sync(GROUNDED, WRONG, deadline=5).status == "fail"
        assert otel_evals.check_sync(GROUNDED, RIGHT, deadline=5).status == "pass"


# --- guard ---


@pytest.mark.parametrize("request_span", [False, True])
@pytest.mark.parametrize("guard_inside", [False, True])
@pytest.mark.parametrize("answer", [RIGHT, WRONG])
def test_a_guarded_function_returns_the_fallback(request_span: bool, guard_inside: bool, answer: str) -> None:
    """The guard may be around the agent, whose run has then ended, or within it."""
    app = checked_app(GROUNDED)
    guard: Any = otel_evals.guard(GROUNDED, fallback="Let me ask a colleague.", deadline=5)

    @guard
    def outside() -> Any:
        return support(app, lambda: answer)

    @guard
    def inside() -> str:
        return answer

    @guard
    async def outside_later() -> Any:
        await asyncio.sleep(0)
        return support(app, lambda: answer)

    def call() -> list[str]:
        if guard_inside:
            return [support(app, inside)]
        return [outside(), asyncio.run(outside_later())]

    if request_span:
        with app.tracer.start_as_current_span("POST /chat"):
            answers = call()
    else:
        answers = call()
    assert set(answers) == {answer if answer == RIGHT else "Let me ask a colleague."}
    effects = {e.effect for e in app.settle()}
    assert effects == {"allowed" if answer == RIGHT else "blocked"}
    assert len(app.scored.evaluations) == len(answers)


def test_no_decorator_hides_an_answer_from_the_guard() -> None:
    app = checked_app(GROUNDED)

    def unnamed(function: Any) -> Any:
        return lambda: function()

    @unnamed
    async def later() -> Any:
        return support(app, lambda: WRONG)

    @unnamed
    async def later_items() -> AsyncIterator[Any]:
        yield support(app, lambda: WRONG)

    @unnamed
    def items() -> Iterator[Any]:
        yield support(app, lambda: WRONG)

    async def collected(stream: Any) -> list[Any]:
        return [item async for item in stream]

    guard: Any = otel_evals.guard(GROUNDED, fallback="Let me ask.", deadline=5)
    assert asyncio.run(guard(later)()) == "Let me ask."
    assert asyncio.run(collected(guard(later_items)())) == ["Let me ask."]
    assert next(guard(items)()) == "Let me ask."


def test_a_fallback_may_rewrite() -> None:
    app = checked_app(GROUNDED)

    @otel_evals.guard(GROUNDED, fallback=lambda answer, verdict: f"{answer} (unconfirmed)", deadline=5)
    def ask() -> Any:
        return support(app, lambda: WRONG)

    assert ask() == f"{WRONG} (unconfirmed)"
    assert [e.effect for e in app.settle()] == ["rewritten"]


@pytest.mark.parametrize("last", [RIGHT, WRONG])
def test_of_a_guarded_stream_no_wrong_sentence_leaves(last: str) -> None:
    app = checked_app(GROUNDED)

    @otel_evals.guard(GROUNDED, fallback="[stopped]", deadline=5)
    @agent("support", capture_content=True, tracer_provider=app.provider)
    def stream(question: str) -> Iterator[str]:
        with tool("lookup_order", capture_content=True, tracer_provider=app.provider) as call:
            call.set_result({"eta": "2026-11-25"})
        yield last[:8]
        yield last[8:]

    assert "".join(stream("When?")) == (RIGHT if last == RIGHT else "[stopped]")
    effects = {evaluation.effect for evaluation in app.settle()}
    assert effects == {"allowed" if last == RIGHT else "blocked"}
