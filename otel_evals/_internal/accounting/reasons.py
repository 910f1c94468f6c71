"""The reasons that the pipeline counts losses and missing scores under. Scorers have reasons of their own."""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[str, str] = {
    # Runs for which no rule was evaluated.
    "trace_not_sampled": "the application's own sampler did not sample the trace",
    "nothing_to_judge": "its spans contain no agent, workflow or inference operation",
    "unreadable": "its spans, or what was said in them, could not be read; the log has the error",
    "root_never_ended": "its root span had not ended, and no other span came for `max_age`",
    "root_not_ended_at_shutdown": "its root span had not ended when scoring was shut down",
    "undecided_at_shutdown": "the shutdown timeout expired before the rules were evaluated for it",
    "too_many_traces": "more traces than `max_open_traces` were open, and it was the least recently active",
    "too_many_bytes": "open traces held more than `max_bytes`; it was the least recently active, or largest",
    "began_before_reload": "it began before a reload that raised sampling, and its first spans were not kept",
    # Spans and log records that did not reach a run.
    "intake_full": "the engine's intake was full, or scoring had been shut down",
    "span_late": "spans ended after their run had been closed, more than `grace` after its root, or evicted",
    "span_limit_per_trace": "the trace had more spans than `max_spans_per_trace`; its run is not scored",
    "agent_too_deep": "rules of scope `agent` do not judge agents more than 100 levels deep",
    "span_unreadable": "spans could not be decoded",
    "log_unreadable": "log records could not be decoded",
    "span_repeated": "spans of closed runs were sent again",
    "log_limit": "too many log records, or too many bytes of them, waited for their spans to end",
    "log_late": "log records arrived after their run had been closed, more than `grace` after its root",
    # Runs that a rule does not sample.
    "not_applicable": "the rule's `when` excludes the run",
    "predicate_failed": "the rule's `when` or `sample` raised an error; the log has the first one",
    "no_conversation_id": "the rule judges conversations, and the run has no conversation id",
    "sampled_out": "the randomness is below the rule's sampling threshold",
    "cascade_not_sampled": "the other scorer that the sampler depends on did not sample the run",
    "cascade_not_scored": "the other scorer that the sampler depends on gave no score",
    "cascade_not_met": "the other scorer's score does not meet the sampler's condition",
    # Sampled runs that no scorer is asked about.
    "run_truncated": "a limit removed some of its spans: `max_spans_per_trace`, or the intake was full",
    # Sampled runs that were dropped.
    "queue_full": "`queue_size` evaluations were already waiting, or runs of `max_bytes`",
    "too_many_conversations": "`max_conversations` was exceeded; it was the least recently active",
    "too_many_conversation_bytes": "`max_conversation_bytes` was exceeded; it was the least recently active",
    "shutdown": "the shutdown timeout expired first",
    # Failures that the engine and the judges report.
    "timeout": "the scorer took longer than the rule's `timeout`",
    "stuck": "too many earlier attempts were still running, long after their timeout",
    "process_died": "the process that was scoring it died",
    "BudgetExceededError": "a judge call could have exceeded the budget",
    "JudgeKeyError": "there is no API key for the judge, or the provider refused it",
    "JudgeModelError": "the judge's provider has no such model",
    "JudgeUnavailableError": "the judge was unavailable in every attempt",
    "ScorerFailure": "the scorer returned a failure without an error type",
    "JudgeReplyError": "the judge's reply did not have the required form",
    # Runs that the store evicted.
    "evicted_age": "they were not scored within `store_max_age`",
    "evicted_size": "the store had reached `store_max_bytes`, and they were the oldest that were not scored",
    "set_aside": "their rows could not be read, and are kept as dead letters",
    # Deliveries of scored runs.
    "exported": "the destination accepted them",
    "refused": "the destination refused them permanently",
    "unavailable": "the destination was unavailable in every attempt",
    "rate_limited": "the destination asked to wait in every attempt",
    "unauthorized": "the destination refused the key, or the key lacks a permission",
    "not_found": "the destination's address, or its project, is not there",
    "trace_not_found": "the destination did not know the judged trace for 15 minutes",
    "conflict": "the destination has something else under the score's id",
    "too_large": "the score is larger than the destination takes",
    "redirected": "the destination's server is elsewhere; redirects are not followed",
    "unexpected_answer": "the server's answer was not that of the destination, a page of HTML, say",
    "not_finite": "the score is not a finite number",
    "out_of_range": "the destination has no place for a score of this size",
}
"""What each reason means, as a clause that can follow "because"."""


def meaning(reason: str | None) -> str:
    """Return a reason with its meaning; a scorer's own reason as it is."""
    if reason is None:
        return ""
    return f"{reason} ({REASONS[reason]})" if reason in REASONS else reason
