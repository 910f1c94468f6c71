"""Evaluations that an earlier `otel-evals score` has written to a file: they are not made again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from otel_evals._internal.deliver.jsonl import read_jsonl
from otel_evals._internal.model import Dropped, NotScored, Outcome, Run, Score, ScorerFailure


class EarlierScores:
    """The evaluations in files of the jsonl destination.

    A conversation has one evaluation id, and a judged span and a revision for each of its states.
    """

    def __init__(self, files: Iterable[str | os.PathLike[str]]) -> None:
        self._found: dict[tuple[str, str], tuple[int, Outcome, frozenset[str]]] = {}
        """Revision, outcome and the run's other spans, by evaluation id and judged span."""
        self._newest: dict[str, int] = {}
        """The highest revision, by evaluation id."""
        for path in files:
            for record in read_jsonl(path) if os.path.exists(path) else ():
                spans = frozenset(record.get("spans", ()))
                for evaluation in record.get("evaluations", ()):
                    self._add(evaluation, spans)
        self.used: set[tuple[str, int]] = set()
        """Ids and revisions that `outcome` has returned."""

    def _add(self, evaluation: Mapping[str, Any], spans: frozenset[str]) -> None:
        id, revision = evaluation["evaluation_id"], evaluation["revision"]
        place = id, evaluation["span_id"]
        if revision >= self._found.get(place, (0,))[0]:
            self._found[place] = revision, _outcome(evaluation), spans
        self._newest[id] = max(revision, self._newest.get(id, 0))

    def outcome(self, evaluation_id: str, run: Run) -> tuple[int, Outcome | None]:
        """Return an outcome that stands, with its revision; otherwise the next revision.

        Repeated are failures, unless a later state of the conversation was judged, since readers keep the
        newest revision; and scores of a run that a backend had only in part.
        """
        newest = self._newest.get(evaluation_id, 0)
        place = evaluation_id, run.root_span_id
        revision, outcome, spans = self._found.get(place, (0, None, frozenset()))
        grown = any(each.span_id not in spans for each in run.operations if each.span_id != run.root_span_id)
        fails = isinstance(outcome, ScorerFailure | Dropped)
        # Otherwise the failure was overtaken by a newer state, which readers see instead.
        if outcome is None or grown or (fails and revision == newest):
            return newest + 1, None
        self.used.add((evaluation_id, revision))
        return revision, outcome


def _outcome(evaluation: Mapping[str, Any]) -> Outcome:
    reason = str(evaluation.get("reason"))
    match evaluation["status"]:
        case "scored":
            explanation, label = evaluation.get("explanation"), evaluation.get("label")
            return Score(value=evaluation["value"], label=label, explanation=explanation)
        case "not_scored":
            return NotScored(reason=reason, explanation=evaluation.get("explanation"))
        case "failed":
            return ScorerFailure(error_type=reason, message=str(evaluation.get("message") or ""))
    return Dropped(reason=reason)
