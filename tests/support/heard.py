"""A scorer of conversations for gateways in processes of their own."""

from __future__ import annotations

from otel_evals import Run, Score, scorer


@scorer(id="heard", version="1", inline=True)
def heard(run: Run) -> Score:
    """Count the turns, and explain which."""
    return Score(value=len(run.turns) / 10, explanation=" ".join(turn.input or "" for turn in run.turns))
