"""What the reasons mean that the engine itself counts things under. Scorers have their own besides."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["REASONS", "meaning"]

REASONS: Mapping[str, str] = {
    # Runs that no rule was asked about.
    "trace_not_sampled": "the application's own sampler did not sample the trace",
    "nothing_to_judge": "its spans hold no agent, workflow or inference",
    "unreadable": "its spans could not be made into a run; the log has the error",
    "root_never_ended": "its root span did not end within `max_age`",
    "root_not_ended_at_shutdown": "its root span had not ended when scoring was shut down",
    "too_many_traces": "more traces than `max_open_traces` were open, and it was the oldest",
    "too_many_bytes": "open traces held more than `max_bytes`, and it was the oldest",
    # Spans and log records that did not reach their run.
    "intake_full": "spans or log records came faster than the engine took them, or after its end",
    "span_late": "spans ended after their run had been closed, longer than `grace` after its root",
    "span_limit_per_trace": "the trace had more spans than `max_spans_per_trace`",
    "span_worker_died": "the engine's process died before their run was closed",
    "span_shutdown": "the engine's process did not take them within the time to shut down",
    "span_unreadable": "spans could not be read at all",
    "log_unreadable": "log records could not be read at all",
    "log_late": "log records came after their run had been closed, longer than `grace` after its root",
    # Runs that a rule does not sample.
    "not_applicable": "the rule's `when` says it is not for this run",
    "predicate_failed": "the rule's `when` or `sample` raised an error; the log has the first one",
    "no_conversation_id": "the rule judges conversations, and the run tells of none that it belongs to",
    "sampled_out": "its chance did not come up",
    "cascade_not_sampled": "the scorer that the rule follows did not sample the run",
    "cascade_not_scored": "the scorer that the rule follows gave no score",
    "cascade_not_met": "the score of the scorer that the rule follows lies on the other side of the bound",
    # Sampled runs that never reached their scorer.
    "queue_full": "no more than `queue_size` evaluations may wait, and the queue was full",
    "too_many_conversations": "more than `max_conversations` were remembered, and it was the oldest",
    "too_many_conversation_bytes": "they held more than `max_conversation_bytes`, and it was the oldest",
    "shutdown": "the time to shut down was over",
    # Scorers' failures that the engine itself brings about.
    "timeout": "the scorer took longer than the rule's `timeout`",
    "stuck": "too many earlier attempts still run, long after their timeout",
    "worker_died": "the process that was scoring it died",
    "BudgetExceededError": "a judge call could have cost more than the budget has left",
    "JudgeUnavailableError": "the judge could not be reached, however often it was tried",
    "JudgeReplyError": "the judge answered, but not in the form asked for",
    # Runs that the store gave up.
    "evicted.age": "nobody scored them for longer than `store_max_age`",
    "evicted.size": "the store was full (`store_max_bytes`), and they were the oldest that nobody scored",
    # Scored runs on their way to a destination.
    "exported": "the destination accepted them",
    "refused": "the destination refused them for good",
    "unavailable": "the destination could not take them, however often it was tried",
}
"""By reason, in words that follow "because"."""


def meaning(reason: str | None) -> str:
    """A reason with what it means; the reason itself where only a scorer could say."""
    if reason is None:
        return ""
    return f"{reason} ({REASONS[reason]})" if reason in REASONS else reason
