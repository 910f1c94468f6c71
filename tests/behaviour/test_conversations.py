"""Rules of scope `conversation`: idle, continued, evicted, sampled, explained, ended."""

from __future__ import annotations

import os
from typing import Any

import pytest
from opentelemetry import context

import otel_evals
from otel_evals import Evaluation, Rule, Run, Score, sampling, scorer
from tests.behaviour.app import App
from tests.support.waits import eventually


@scorer(inline=True, version="1")
def turns(run: Run) -> Score:
    """A tenth for each turn, with what was said."""
    said = [m.text for m in (*run.history, *run.input_messages, *run.output_messages)]
    return Score(value=len(run.turns) / 10, explanation=" | ".join(said))


@scorer(inline=True, version="1")
def asked(run: Run) -> Score:
    return Score(value=1.0, explanation=run.input)


def whole(judge: Any = turns, **options: Any) -> Rule:
    """A rule of conversations; unless told otherwise they end with the application."""
    return Rule(judge, scope="conversation", **{"idle": 600, **options})


def at_the_end(app: App) -> list[Evaluation]:
    """What was delivered once the application has ended."""
    app.pipeline.shutdown(60_000)
    stats = app.pipeline.stats()
    assert stats.check() == []
    assert [rule.pending for rule in stats.rules.values()] == [0] * len(stats.rules)
    assert stats.conversations.waiting == 0
    return list(app.scored.evaluations)


def test_a_conversation_is_scored_when_it_is_idle_and_again_after_it_continues() -> None:
    app = App(whole(idle=0.2))
    app.say("c1", "one", "1")
    app.await_rule("turns@conversation", lambda rule: rule.scored == 1)
    app.say("c1", "two", "2")
    app.await_rule("turns@conversation", lambda rule: rule.scored == 2)
    first, second = app.settle()
    assert first.evaluation_id == second.evaluation_id
    assert [(e.revision, e.outcome.explanation) for e in (first, second)] == [  # type: ignore[union-attr]
        (1, "one | 1"),
        (2, "one | 1 | two | 2"),
    ]


def test_scores_stand_at_the_last_turn_and_name_the_conversation() -> None:
    """The event and the evaluation span; the judged span itself has long left."""
    app = App(whole(), asked, evaluation_spans="same_trace")
    traces = [app.say("c1", f"q{number}") for number in range(3)]
    (evaluation,) = [e for e in at_the_end(app) if e.scorer_id == "turns"]
    assert (evaluation.trace_id, evaluation.conversation_id) == (traces[-1], "c1")
    (event,) = [e for e in app.events() if e.attributes["gen_ai.evaluation.name"] == "turns"]
    span = app.span("evaluate turns")
    for attributes in (span.attributes, event.attributes):
        assert attributes["gen_ai.conversation.id"] == "c1"
        assert attributes["otel_evals.conversation.turns"] == 3
        assert attributes["gen_ai.evaluation.score.value"] == pytest.approx(0.3)
        assert attributes["otel_evals.evaluation.revision"] == 1
    assert f"{event.trace_id:032x}" == f"{span.context.trace_id:032x}" == traces[-1]
    assert [f"{link.context.trace_id:032x}" for link in span.links] == traces[:-1]
    assert not any("otel_evals.score.turns" in (root.attributes or {}) for root in app.spans())
    assert all("otel_evals.score.asked" in (root.attributes or {}) for root in app.spans())


def test_turns_are_in_the_order_of_their_starts() -> None:
    """The second turn ends while the first, which began before it, still goes on."""
    app = App(whole())

    def elsewhere(span: Any) -> None:
        span.set_attribute("gen_ai.conversation.id", "c1")
        token = context.attach(context.Context())
        app.say("c1", "two", "2")
        context.detach(token)

    app.run(question="one", answer="1", during=elsewhere)
    (evaluation,) = at_the_end(app)
    assert evaluation.outcome.explanation == "one | 1 | two | 2"  # type: ignore[union-attr]


def test_conversations_of_different_users_are_different() -> None:
    app = App(whole())
    for user in ("ann", "bob", "ann"):

        def mark(span: Any, user: str = user) -> None:
            span.set_attributes({"gen_ai.conversation.id": "1", "user.id": user})

        app.run(during=mark)
    assert sorted(e.outcome.value for e in at_the_end(app)) == [0.1, 0.2]  # type: ignore[union-attr]


def test_conversations_are_sampled_whole() -> None:
    app = App(whole(sample=sampling.ratio(0.3)), whole(asked, sample=sampling.ratio(0.6)))
    for number in (*range(40), *range(40)):
        app.say(f"conversation {number}")
    evaluations = at_the_end(app)
    picked = {
        name: {e.conversation_id for e in evaluations if e.scorer_id == name} for name in ("turns", "asked")
    }
    assert 0 < len(picked["turns"]) < len(picked["asked"]) < 40
    assert picked["turns"] <= picked["asked"]
    for name, rate in (("turns", 0.3), ("asked", 0.6)):
        mine = [e for e in evaluations if e.scorer_id == name]
        assert len(mine) == len(picked[name])
        assert {e.sampled.probability for e in mine} == {rate}
        assert app.rule(f"{name}@conversation").not_sampled == {"sampled_out": 40 - len(mine)}
    assert {e.outcome.value for e in evaluations if e.scorer_id == "turns"} == {0.2}  # type: ignore[union-attr]


def test_runs_without_a_conversation_are_counted_and_explained() -> None:
    app = App(whole(), asked)
    trace = app.run()
    app.settle()
    assert app.rule("turns@conversation").not_sampled == {"no_conversation_id": 1}
    assert app.pipeline.explain(trace).status == "scored"
    assert "the run has no conversation id" in str(app.pipeline.explain(trace))


def test_explain_tells_that_a_run_waits_and_what_came_of_its_conversation() -> None:
    app = App(whole())
    traces = [app.say("c1"), app.say("c1")]
    eventually(lambda: app.pipeline.explain(traces[1]).decisions)
    (decision,) = app.pipeline.explain(traces[0]).decisions
    assert (decision.status, decision.conversation_id) == ("awaiting_idle", "c1")
    assert decision.until is not None
    assert "conversation c1: will be judged at " in str(app.pipeline.explain(traces[0]))
    assert app.pipeline.stats().conversations.waiting == 1
    assert [point.value for point in app.points("otel_evals.conversations.waiting")] == [1]
    at_the_end(app)
    for trace in traces:
        answer = app.pipeline.explain(trace)
        assert (answer.status, answer.decisions[0].value) == ("scored", 0.2)


def test_at_the_end_all_are_scored_beyond_what_the_queue_holds() -> None:
    app = App(whole(), whole(asked, idle=60), limits={"queue_size": 3})
    for number in range(50):
        app.say(f"c{number}")
    at_the_end(app)
    assert [app.rule(f"{name}@conversation").scored for name in ("turns", "asked")] == [50, 50]


def test_the_least_recently_active_are_dropped_and_counted() -> None:
    app = App(whole(), limits={"max_conversations": 4})
    for number in range(10):
        app.say(f"c{number}")
    app.settle()
    assert app.rule("turns@conversation").dropped == {"too_many_conversations": 6}
    at_the_end(app)
    assert app.rule("turns@conversation").scored == 4


def test_cascades_and_conditions_see_the_whole_conversation() -> None:
    """Conversations of one turn score low; those of a single question are left out of the other rule."""
    follows = whole(asked, sample=sampling.below("turns", 0.2))
    longer = whole(scorer(id="longer", version="1")(lambda run: 1.0), when=lambda run: len(run.turns) > 1)
    app = App(follows, whole(), longer)
    for conversation in ("short", "long", "long", "long"):
        app.say(conversation)
    evaluations = at_the_end(app)
    by_scorer = {
        name: {e.conversation_id for e in evaluations if e.scorer_id == name} for name in ("asked", "longer")
    }
    assert by_scorer == {"asked": {"short"}, "longer": {"long"}}
    assert app.rule("asked@conversation").not_sampled == {"cascade_not_met": 1}
    assert app.rule("longer@conversation").not_sampled == {"not_applicable": 1}


@scorer(version="1")
def elsewhere(run: Run) -> Score:
    """A tenth for each turn, with the process it was judged in and what was said."""
    said = [m.text for m in (*run.history, *run.input_messages) if m.role == "user"]
    tools = sum(len(turn.tool_calls) for turn in run.turns)
    return Score(value=len(run.turns) / 10, explanation=f"{os.getpid()} {tools} {said}")


@pytest.mark.slow
def test_a_scorer_in_its_own_process_sees_the_turns() -> None:
    app = App(whole(elsewhere, isolation="process"))
    for number in range(3):
        app.say("c1", f"q{number}")
    (evaluation,) = at_the_end(app)
    assert isinstance(evaluation.outcome, Score)
    assert evaluation.outcome.value == 0.3
    pid, tools, said = str(evaluation.outcome.explanation).split(" ", 2)
    assert (int(pid) != os.getpid(), tools, said) == (True, "3", "['q0', 'q1', 'q2']")


def test_a_flush_does_not_end_conversations() -> None:
    app = App(whole())
    app.say("c1")
    assert app.settle() == []
    assert otel_evals.stats().conversations.waiting == 1
    assert len(at_the_end(app)) == 1
