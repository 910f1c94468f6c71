"""The reasons that the pipeline counts losses and missing scores under. Scorers have reasons of their own."""

# ruff: noqa: E501  # a table: each reason is one line

from __future__ import annotations

from collections.abc import Mapping

# fmt: off
REASONS: Mapping[str, str] = {
    # Runs for which no rule was evaluated.
    "trace_not_sampled": "the application's own sampler did not sample the trace; OTEL_TRACES_SAMPLER=parentbased_always_on samples all",
    "nothing_to_judge": "none of its spans is of an agent, a workflow or a model; turn on the framework's instrumentation",
    "unreadable": "its spans or messages could not be read; the log has the error",
    "root_never_ended": "its root span did not end, and no other span came for `limits.max_age`; raise it for longer runs",
    "root_not_ended_at_shutdown": "its root span had not ended at shutdown (counts later spans, too); end runs before shutdown",
    "undecided_at_shutdown": "`shutdown_timeout` expired before the rules were evaluated; raise it",
    "too_many_traces": "more than `limits.max_open_traces` traces were open, and it was the least recently active; raise the limit",
    "too_many_bytes": "open traces exceeded `limits.max_bytes`, and it was the least recently active or the largest; raise the limit",
    "began_before_reload": "it began before a call of `configure` or a reload that raised sampling, so its first spans were not kept",
    # Spans and log records that did not reach a run.
    "intake_full": "the engine could not keep up; sample fewer runs",
    "span_late": "spans ended more than `grace` after the root of their run, or after a run of their trace was evicted; raise `grace`",
    "span_limit_per_trace": "the trace had more than `limits.max_spans_per_trace` spans, so its run is not scored; raise the limit",
    "agent_too_deep": "rules of scope `agent` do not judge agents more than 100 levels deep",
    "span_unreadable": "spans could not be decoded",
    "log_unreadable": "log records could not be decoded",
    "span_repeated": "spans were sent again; the first version of an ended span counts",
    "log_limit": "too many log records, or too many bytes of them, waited for their spans to end",
    "log_late": "log records came more than `grace` after the root of their run; raise `grace`",
    # Runs that a rule does not sample.
    "judge_question": "the run's question was asked by a judge of this deployment; judges are not judged",
    "not_applicable": "the rule's `when` excludes the run",
    "predicate_failed": "the rule's `when` or `sample` raised an error; the log has the first one",
    "no_conversation_id": "the rule judges conversations, and the run has no conversation id; record `gen_ai.conversation.id`",
    "sampled_out": "the rule's `sample` does not include its trace id; raise the probability to score more",
    "cascade_not_sampled": "the scorer that `sample` depends on did not sample the run",
    "cascade_not_scored": "the scorer that `sample` depends on gave no score",
    "cascade_not_met": "the score that `sample` depends on does not meet its condition",
    # Sampled runs that no scorer is asked about.
    "run_truncated": "some of its spans were dropped, by `limits.max_spans_per_trace` or a full intake, or came late; raise the limit",
    # Sampled runs that were dropped.
    "no_run": "a check found no agent or model call under way at its place; check inside the run, or within `grace` of its end",
    "not_captured": "a check's current span was not captured: its trace began before the first check, or its provider is not the configured one",
    "other_version": "a check's scorer has the id of a rule and another version; use the rule's scorer, or give it another `id`",
    "queue_full": "`limits.queue_size` evaluations of the rule, or `limits.max_bytes` of runs, were already waiting; raise it, or sample fewer runs",
    "too_many_conversations": "`limits.max_conversations` was exceeded; it was the least recently active",
    "too_many_conversation_bytes": "`limits.max_bytes` was exceeded; it was the least recently active",
    "shutdown": "`shutdown_timeout` expired before it was scored; raise it, or configure a `journal`",
    # Failures that the engine and the judges report.
    "timeout": "the scorer took longer than the rule's `timeout`; raise it",
    "stuck": "too many earlier attempts were still running, long after their timeout; have the scorer end them",
    "process_died": "the process that was scoring it died, or could not start; the message says why",
    "BudgetExceededError": "a judge call could have exceeded the budget; raise `usd` or `tokens`",
    "JudgeKeyError": "the judge has no API key, or the provider refused it; set the variable in the message",
    "JudgeModelError": "the judge's provider has no such model; correct `model`",
    "JudgeUnavailableError": "the judge did not answer in any attempt; check its server, or raise `attempts`",
    "ScorerFailure": "the scorer returned a failure without an error type",
    "JudgeReplyError": "the judge's reply did not fit the schema, even after a repair; use a stronger model",
    "JudgeRefusalError": "the judge or its provider refused to answer; the message has its words",
    "JudgeEmptyError": "the judge's reply was empty; use another model, or raise `max_tokens`",
    "JudgeCutError": "the judge's reply was cut off; raise `max_tokens`",
    # Deliveries of scored runs.
    "exported": "the destination accepted them",
    "refused": "the destination refused them permanently; the log has its answer",
    "unavailable": "the destination did not answer in any attempt; start it, or correct its `url`",
    "rate_limited": "the destination asked to wait in every attempt",
    "unauthorized": "the destination refused the key, or the key lacks a permission; correct the key",
    "not_found": "the destination's server has no such address or project; correct `url` or the project",
    "trace_not_found": "the destination had no such trace for 15 minutes; send the spans to the same project",
    "conflict": "the destination already has something else under the score's id",
    "too_large": "the score is larger than the destination accepts; `capture_content: false` makes scores smaller",
    "redirected": "the server redirects to another address; use that as `url`",
    "unexpected_answer": "the server's answer is not that of this product, but a page of HTML, say; correct `url`",
    "not_finite": "the score is not a finite number; correct the scorer",
    "out_of_range": "the destination does not accept a score of this size; scale it to 0..1",
}
# fmt: on
"""What each reason means, and what to do about it."""


def meaning(reason: str | None) -> str:
    """Return a reason with its meaning; a scorer's own reason as it is."""
    if reason is None:
        return ""
    return f"{reason} ({REASONS[reason]})" if reason in REASONS else reason
