"""Proposals of `otel-evals judge calibrate`: a threshold and examples, and whether they help."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import anyio

from otel_evals._internal.model import Score
from otel_evals._internal.offline.calibration import FEWEST, halves, propose_threshold, try_examples
from otel_evals._internal.offline.judge_trials import Judged, judge_all
from otel_evals._internal.scoring.scorer import Scorer


def proposals(
    scorer: Scorer, judged: Sequence[Judged], threshold: float, examples: int, at_once: int
) -> dict[str, Any]:
    """Return the proposals, each with its effect on held-out labels; empty if there are too few labels."""
    parts = halves([(e, o) for e, o in judged if isinstance(o, Score)])
    if parts is None:
        return {}
    found = {"threshold": propose_threshold(parts, threshold)}
    if examples:
        judge = partial(judge_all, at_once=at_once)
        found["examples"] = anyio.run(try_examples, scorer, parts, examples, threshold, judge)
    return found


def show_proposals(found: dict[str, Any]) -> None:
    if not found:
        print(f"no proposals: they need {FEWEST} scored examples")
    for name, proposal in found.items():
        value = proposal[name]
        shown = f"{value:g}" if isinstance(value, float) else ", ".join(value)
        verdict = "helps" if proposal["helped"] else "did not help: keep the scorer as it is"
        held_out = f"kappa of {proposal['held_out']} held-out examples"
        print(f"{name} {shown}: {verdict}; {held_out} {_kappas(proposal)}")


def _kappas(proposal: dict[str, Any]) -> str:
    before, after, gain = (proposal[key] for key in ("kappa_before", "kappa_after", "gain_interval"))
    if gain is None:
        return "is not defined"
    return f"{before:.2f} before, {after:.2f} after (95% interval of the gain {gain[0]:.2f} to {gain[1]:.2f})"
