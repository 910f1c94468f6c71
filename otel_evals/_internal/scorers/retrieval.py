"""Retrieved pieces: their order, and their relevance and use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.model import Score
from otel_evals._internal.scorers.bounds import check_range, round_half_up
from otel_evals._internal.scorers.judged import Judgement, build, pieces_of
from otel_evals._internal.scorers.kit.context import AnyParams, Resolver
from otel_evals._internal.scorers.kit.steps import StepScorer


def context_precision(
    model: Judge | str,
    *,
    get_context: Resolver | None = None,
    context: Sequence[str] | None = None,
    scale: float = 1.0,
    id: str = "context_precision",
) -> StepScorer[None, Any]:
    """The average precision of the retrieved pieces: 1 if all useful pieces come before the useless ones.

    Range: 0..scale, higher is better.
    Formula: mean over the useful pieces of (useful pieces so far / position), times scale, rounded to two
    decimals; 0 if none is useful (average precision; Mastra evals, context precision scorer).
    Needs: the user's words, the final answer, and pieces from `get_context` or `context`, by default the
    run's retrieved documents.
    Not scored: `no_context`; input or output not recorded.
    Cost: one judge call.

    Raises:
        ConfigError: `scale` is not positive, `context` is empty, or the judge cannot be used.
    """

    # Judges may list the pieces in any order, but precision depends on their rank.
    def score(params: AnyParams, kind: Judgement) -> Score:
        ranked = sorted(params.results.analyze.pieces, key=lambda piece: piece.piece)
        useful = [piece.verdict == "useful" for piece in ranked]
        places = ", ".join(str(n) for n, it in enumerate(useful, 1) if it)
        explanation = f"useful: {places or 'none'} of {len(useful)} pieces"
        return Score(value=round_half_up(average_precision(useful) * scale), explanation=explanation)

    return build(
        "context_precision",
        model,
        id=id,
        scale=scale,
        get_context=pieces_of(id, get_context, context),
        score=score,
        check=_each_piece,
    )


def context_relevance(
    model: Judge | str,
    *,
    get_context: Resolver | None = None,
    context: Sequence[str] | None = None,
    unused_penalty: float = 0.1,
    missing_penalty: float = 0.15,
    max_missing_penalty: float = 0.5,
    scale: float = 1.0,
    id: str = "context_relevance",
) -> StepScorer[None, Any]:
    """Relevance of the retrieved pieces to the user's question, reduced by unused and missing information.

    Range: 0..scale, higher is better.
    Formula: max(0, mean worth of the pieces (high 1, medium 0.7, low 0.3, none 0) - unused highly relevant
    pieces * unused_penalty - min(missing * missing_penalty, max_missing_penalty)) * scale, rounded to two
    decimals (Mastra evals, context relevance scorer).
    Needs: the user's words, the final answer, and pieces from `get_context` or `context`, by default the
    run's retrieved documents.
    Not scored: `no_context`; input or output not recorded.
    Cost: one judge call.

    Args:
        unused_penalty: subtracted for each highly relevant piece that the answer did not use.
        missing_penalty: subtracted for each missing piece of information.
        max_missing_penalty: maximum subtracted for missing information.

    Raises:
        ConfigError: an option is out of range, `context` is empty, or the judge cannot be used.
    """
    check_range(f"{id}.unused_penalty", unused_penalty)
    check_range(f"{id}.missing_penalty", missing_penalty)
    check_range(f"{id}.max_missing_penalty", max_missing_penalty)

    # Never divides by zero: a run without pieces is not scored, and each piece needs a verdict.
    def score(params: AnyParams, kind: Judgement) -> Score:
        reply = params.results.analyze
        worths = [kind.worth[piece.verdict] for piece in reply.pieces]
        unused = sum(piece.verdict == "high" and not piece.used for piece in reply.pieces)
        lost = min(len(reply.missing) * missing_penalty, max_missing_penalty)
        value = max(0.0, sum(worths) / len(worths) - unused * unused_penalty - lost)
        lines = [f"piece {p.piece}: {p.verdict}, {'used' if p.used else 'not used'}" for p in reply.pieces]
        lines += [f"missing: {each}" for each in reply.missing]
        return Score(value=round_half_up(value * scale), explanation="\n".join(lines))

    return build(
        "context_relevance",
        model,
        id=id,
        scale=scale,
        get_context=pieces_of(id, get_context, context),
        score=score,
        check=_each_piece,
    )


def average_precision(useful: Sequence[bool]) -> float:
    """Return the mean precision at each useful position; 0 if there is none."""
    at = [sum(useful[: n + 1]) / (n + 1) for n, it in enumerate(useful) if it]
    return sum(at) / len(at) if at else 0.0


def _each_piece(params: AnyParams, reply: Any) -> str | None:
    got, wanted = len(reply.pieces), len(params.context.pieces) if params.context else 0
    return None if got >= wanted else f"it holds {got} verdicts for {wanted} pieces; give one for each"
