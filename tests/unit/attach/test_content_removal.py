"""Where content capture is off, an outcome keeps what it says of the run and nothing that quotes it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from otel_evals._internal.attach.content_removal import without_content
from otel_evals.model import ContextSeen, Dropped, NotScored, Outcome, Score, ScorerFailure, StepRecord, Usage
from tests.support.scored import JUDGED

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
LABELS = st.sampled_from([None, "leak", "not at all", "> 90%", SECRET, f"bad\n{SECRET}", "x" * 256])
NAMES = st.sampled_from(["KeyError", "http.500", "no_tool_calls", SECRET, f"x: {SECRET}", "x" * 256])
QUOTING: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Score, value=st.floats(0, 1), label=LABELS, explanation=TEXTS, steps=STEPS),
    st.builds(NotScored, reason=NAMES, explanation=TEXTS, steps=STEPS),
    st.builds(ScorerFailure, error_type=NAMES, message=st.just(SECRET), steps=STEPS),
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


def test_what_looks_like_a_label_or_a_name_stays() -> None:
    for label in (None, "leak", "not at all", "> 90%", "5/5"):
        assert without_content(Score(value=1.0, label=label)) == Score(value=1.0, label=label)
    for name in ("KeyError", "openai.APIError", "no_tool_calls"):
        assert without_content(NotScored(reason=name)) == NotScored(reason=name)
    assert without_content(NotScored(reason=SECRET)) == NotScored(reason="withheld")
    assert without_content(Score(value=1.0, label=SECRET)) == Score(value=1.0, label="withheld")


def test_of_a_step_s_error_the_type_stays() -> None:
    failed = StepRecord(name="analyze", error=f"KeyError: {SECRET}")
    bare = without_content(NotScored(reason="no_context", explanation=SECRET, steps=(failed,)))
    assert isinstance(bare, NotScored)
    assert (bare.reason, bare.explanation, bare.steps[0].error) == ("no_context", None, "KeyError")
