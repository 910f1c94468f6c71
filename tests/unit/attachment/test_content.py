"""Where content capture is off, an outcome keeps what it says of the run and nothing that quotes it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from scored import JUDGED, OUTCOMES

from otel_evals.attachment.content import without_content
from otel_evals.model import ContextSeen, Dropped, NotScored, Outcome, Score, ScorerFailure, StepRecord, Usage

SECRET = "order 1042 of Jane Doe"
TEXTS = st.none() | st.just(SECRET)
STEPS = st.lists(
    st.builds(
        StepRecord,
        name=st.just("analyze"),
        result=TEXTS,
        prompt=TEXTS,
        model=st.none() | st.just("m"),
        usage=st.just(Usage(input_tokens=3)),
        cost=st.none() | st.just(0.5),
        error=st.none()
        | st.sampled_from([f"KeyError: {SECRET}", SECRET, f"{SECRET}: KeyError", "x" * 9_000]),
        context=st.none()
        | st.builds(
            ContextSeen, digest=st.just("ab"), pieces=st.just(1), text=st.none() | st.just((SECRET,))
        ),
    ),
    max_size=3,
).map(tuple)
QUOTING: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Score, value=st.floats(0, 1), label=st.just("leak"), explanation=TEXTS, steps=STEPS),
    st.builds(NotScored, reason=st.just("no_tool_calls"), explanation=TEXTS, steps=STEPS),
    st.builds(ScorerFailure, error_type=st.just("KeyError"), message=st.just(SECRET), steps=STEPS),
    st.builds(Dropped, reason=st.just("shutdown")),
)


@given(QUOTING)
def test_nothing_of_the_run_is_left(outcome: Outcome) -> None:
    bare = without_content(outcome)
    assert SECRET not in repr(bare)
    assert len(repr(bare)) < 5_000
    assert type(bare) is type(outcome)
    assert without_content(bare) == bare


def test_the_score_its_label_and_what_it_cost_stay() -> None:
    bare = without_content(JUDGED)
    assert isinstance(bare, Score)
    assert (bare.value, bare.label, bare.explanation) == (0.25, "unsupported", None)
    assert (bare.usage, bare.cost) == (JUDGED.usage, JUDGED.cost)
    assert bare.steps[1].context == ContextSeen(digest="ab" * 32, pieces=1)


def test_what_quotes_nothing_stays_as_it_is() -> None:
    assert without_content(OUTCOMES["tone"]) == OUTCOMES["tone"]


def test_of_a_step_s_error_the_type_stays() -> None:
    failed = StepRecord(name="analyze", error=f"KeyError: {SECRET}")
    bare = without_content(NotScored(reason="no_context", explanation=SECRET, steps=(failed,)))
    assert isinstance(bare, NotScored)
    assert (bare.reason, bare.explanation, bare.steps[0].error) == ("no_context", None, "KeyError")


def test_a_failure_keeps_its_type_for_a_message() -> None:
    bare = without_content(ScorerFailure(error_type="KeyError", message=SECRET, attempts=3))
    assert bare == ScorerFailure(error_type="KeyError", message="KeyError", attempts=3)
