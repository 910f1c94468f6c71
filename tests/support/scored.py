"""Scored runs, ready made, for tests of destinations."""

from __future__ import annotations

from otel_evals.model import (
    ContextSeen,
    Direction,
    Dropped,
    Evaluation,
    Message,
    NotScored,
    OperationKind,
    Outcome,
    Part,
    Run,
    Sampled,
    Score,
    ScoredRun,
    ScorerFailure,
    StepRecord,
    ToolCall,
    Usage,
)

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"

JUDGED = Score(
    value=0.25,
    label="unsupported",
    explanation="$12.50 is in no tool result",
    steps=(
        StepRecord(name="preprocess", result=["$12.50"]),
        StepRecord(
            name="analyze",
            result={"verdicts": ["no"]},
            prompt="Is it so?",
            model="openai/gpt-5-mini",
            usage=Usage(input_tokens=100, output_tokens=7),
            cost=0.00042,
            context=ContextSeen(digest="ab" * 32, pieces=1, text=("order 1042 costs $15.20",)),
        ),
    ),
)
OUTCOMES: dict[str, Outcome] = {
    "hallucination": JUDGED,
    "keyword_coverage": Score(value=1.0),
    "tool_call_accuracy": NotScored(reason="no_tool_calls", explanation="the run called no tool"),
    "answer_relevancy": ScorerFailure(error_type="timeout", message="no answer in 30 s", attempts=3),
    "tone": Dropped(reason="queue_full"),
}


def evaluation(
    scorer: str, outcome: Outcome, *, trace_id: str = TRACE, span_id: str = SPAN, version: str = "1f3a"
) -> Evaluation:
    return Evaluation(
        evaluation_id=f"{trace_id[:8]}-{span_id}-{scorer}-{version}",
        scorer_id=scorer,
        scorer_version=version,
        direction=Direction.HIGHER,
        trace_id=trace_id,
        span_id=span_id,
        outcome=outcome,
        sampled=Sampled(0.25, "ratio(0.25)"),
        time=1_700_000_002_500_000_000,
    )


def scored_run(number: int = 0, outcomes: dict[str, Outcome] | None = None) -> ScoredRun:
    """A run that asked about an order, with one evaluation of every kind unless told otherwise."""
    trace_id = f"{int(TRACE, 16) + number:032x}"
    run = Run(
        trace_id=trace_id,
        root_span_id=SPAN,
        root_kind=OperationKind.AGENT,
        agent_name="support",
        input_messages=(Message(role="user", parts=(Part(kind="text", text="Where is my order 1042?"),)),),
        output="It ships on Monday for $12.50.",
        tool_calls=(ToolCall(name="search_orders", status="ok"),),
        models=("gpt-5-mini",),
        usage=Usage(input_tokens=12, output_tokens=5),
        start_time=1_700_000_000_000_000_000,
        end_time=1_700_000_002_000_000_000,
        resource={"service.name": "shop"},
    )
    chosen = OUTCOMES if outcomes is None else outcomes
    return ScoredRun(
        run=run,
        evaluations=tuple(evaluation(name, outcome, trace_id=trace_id) for name, outcome in chosen.items()),
    )
