"""Evaluations as backends take them: one item per score, and OTLP in JSON."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from otel_evals import semconv
from otel_evals._internal.deliver.record import steps_of
from otel_evals._internal.model import Evaluation, NotScored, Run, Score, ScoredRun, ScorerFailure
from otel_evals._internal.model.evaluations import judges_cost, scored_span
from otel_evals._internal.util.version import __version__

_NAMESPACE = uuid.UUID("5c5b9e50-9a0b-5a7e-8f3e-6f1a6a4c7d11")
"""Of the UUIDs (version 5, RFC 9562) made of evaluation ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreItem:
    """One evaluation of a run, ready to be written for a backend."""

    run: Run
    evaluation: Evaluation
    content: bool = True
    """Whether explanations may be told."""

    @property
    def id(self) -> str:
        """The evaluation's id: the same for every attempt and revision."""
        return self.evaluation.evaluation_id

    @property
    def uuid(self) -> str:
        """The id as a UUID."""
        # A lone surrogate has no UTF-8 form.
        return str(uuid.uuid5(_NAMESPACE, self.id.encode("utf-8", "replace").decode()))

    @property
    def name(self) -> str:
        """The scorer's id."""
        return self.evaluation.scorer_id.replace("\x00", "")

    @property
    def _score(self) -> Score | None:
        outcome = self.evaluation.outcome
        return outcome if isinstance(outcome, Score) else None

    @property
    def value(self) -> float | None:
        """The score; None without one."""
        score = self._score
        return None if score is None else float(score.value)

    @property
    def label(self) -> str | None:
        """The score's label."""
        return _text(getattr(self._score, "label", None))

    @property
    def explanation(self) -> str | None:
        """The score's explanation; None without content."""
        return _text(getattr(self._score, "explanation", None)) if self.content else None

    @property
    def error(self) -> tuple[str, str] | None:
        """Reason and message of an evaluation that failed or was dropped."""
        outcome = self.evaluation.outcome
        if isinstance(outcome, Score | NotScored):
            return None
        message = outcome.message if self.content and isinstance(outcome, ScorerFailure) else ""
        return self.evaluation.reason or outcome.status, _text(message) or outcome.status

    @property
    def time(self) -> int:
        """When the run ended, in nanoseconds since the Unix epoch; else its start, or the outcome's time."""
        # Not the time of scoring: a repeat must have the same timestamp.
        return self.run.end_time or self.run.start_time or self.evaluation.time

    @property
    def timestamp(self) -> str:
        """The time in UTC, as ISO 8601 with milliseconds."""
        return iso(self.time)

    @property
    def source(self) -> Literal["LLM", "CODE"]:
        """`LLM` if a model judged."""
        return "LLM" if any(step.model for step in steps_of(self.evaluation.outcome)) else "CODE"

    @property
    def session(self) -> str | None:
        """The conversation that is judged as a whole."""
        return self.evaluation.conversation_id

    @property
    def span_id(self) -> str:
        """The span that the score is about: the operation it names, or the judged span."""
        return scored_span(self.run, self.evaluation)

    @property
    def whole_run(self) -> bool:
        """Return True if the score is about a run, not a step or an agent within it, nor a conversation."""
        return self.session is None and self.span_id == self.run.root_span_id

    @property
    def metadata(self) -> dict[str, Any]:
        """Facts about the score: identity, sampling, and the judge's model and cost."""
        evaluation, steps = self.evaluation, steps_of(self.evaluation.outcome)
        facts = {
            "evaluation_id": evaluation.evaluation_id,
            "scorer_version": evaluation.scorer_version,
            "direction": evaluation.direction.value,
            "revision": evaluation.revision,
            "conversation_id": evaluation.conversation_id,
            "sampling_probability": evaluation.sampled.probability,
            "sampling_rule": evaluation.sampled.rule,
            "judge_model": ", ".join(sorted({step.model for step in steps if step.model})) or None,
            "judge_tokens": sum(step.usage.total_tokens for step in steps) or None,
            "judge_cost_usd": judges_cost([evaluation.outcome]),
        }
        return {k: _text(v) if isinstance(v, str) else v for k, v in facts.items() if v is not None}


def items_of(batch: Iterable[ScoredRun], *, content: bool, errors: bool) -> Iterator[ScoreItem]:
    """Return the scores of a batch; with `errors`, also evaluations that failed or were dropped."""
    for scored in batch:
        for evaluation in scored.evaluations:
            item = ScoreItem(run=scored.run, evaluation=evaluation, content=content)
            if item.value is not None or (errors and item.error is not None):
                yield item


def cut(text: str | None, limit: int = 10_000) -> str | None:
    """Return a text of at most `limit` characters; a longer one ends with `[…cut]`."""
    return text if text is None or len(text) <= limit else text[: limit - 7] + " […cut]"


def iso(nanoseconds: int) -> str:
    """Return a time in UTC, as ISO 8601 with milliseconds."""
    moment = datetime.fromtimestamp(nanoseconds // 1_000_000 / 1e3, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _text(text: str | None) -> str | None:
    """Return a text without NUL characters, which PostgreSQL does not store."""
    return text and text.replace("\x00", "")


def one_resource(kind: str, records: Sequence[Mapping[str, Any]], service: object) -> dict[str, Any]:
    """Return an export request for `span` or `log` records of a service, in OTLP's JSON form."""
    part, list_ = ("Spans", "spans") if kind == "span" else ("Logs", "logRecords")
    scope = {"scope": {"name": semconv.SCOPE_NAME, "version": __version__}, list_: list(records)}
    resource = {"attributes": attributes_of({semconv.SERVICE_NAME: str(service or "unknown_service")})}
    return {f"resource{part}": [{"resource": resource, f"scope{part}": [scope]}]}


def attributes_of(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return attributes in OTLP's JSON form, without those that are None."""
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value is not None]


def service_of(item: ScoreItem) -> str:
    """Return the name of the judged service; empty if it was not recorded."""
    return str(item.run.resource.get(semconv.SERVICE_NAME) or "")


def _value(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
    return {"stringValue": str(value)}
