"""All scorers that ask a judge, and options that some of them need."""

from __future__ import annotations

import inspect
from typing import Any

import otel_evals.scorers as built_in

__all__ = ["JUDGE_OPTIONS", "judge_scorers", "reply_of"]

JUDGE_OPTIONS: dict[str, dict[str, Any]] = {
    "classifier": {"question": "Is it so?", "classes": {"yes": 1.0, "no": 0.0}},
    "multi_turn_judge": {"criterion": "It is so."},
    "noise_sensitivity": {"baseline_response": "so", "noisy_query": "so?"},
    "rubric": {"criteria": lambda run: [run.input]},
    "trajectory_judge": {"expected_steps": ["a"]},
}


def judge_scorers() -> list[str]:
    """By their first parameter."""
    made = {name: list(inspect.signature(getattr(built_in, name)).parameters) for name in built_in.__all__}
    return sorted(name for name, parameters in made.items() if parameters[:1] == ["model"])


def reply_of(name: str, text: str = "", good: bool = True) -> dict[str, Any]:
    """A judge's reply about a run with one claim, piece, call or criterion; its own words are `text`."""
    claim = {
        "claim": text,
        "evidence": text,
        "verdict": "supported" if good else "contradicted",
        "reason": text,
    }
    judged = {"words": text, "reason": text}
    met, level = ("met", "high") if good else ("unmet", "none")
    respect = {"respect": text, "impact": "none" if good else "severe", "change": text}
    replies: dict[str, dict[str, Any]] = {
        "answer_relevancy": {"statements": [{**judged, "verdict": "relevant" if good else "irrelevant"}]},
        "answer_similarity": {
            "units": [{"expected": text, "answer": text, "verdict": "exact" if good else "missing"}],
            "extra": [text],
        },
        "bias": {"remarks": [{**judged, "verdict": "fair" if good else "biased"}]},
        "classifier": {"label": "yes" if good else "no", "reason": text},
        "context_precision": {
            "pieces": [{"piece": 1, "words": text, "verdict": "useful" if good else "useless"}]
        },
        "context_relevance": {"pieces": [{"piece": 1, "verdict": level, "used": good}], "missing": [text]},
        "factuality": {"relation": "same" if good else "contradicts", "reason": text},
        "failure_step": {"failed": not good, "step": 1, "category": "other", "reason": text},
        "multi_turn_judge": {"verdict": met, "reason": text},
        "noise_sensitivity": {"respects": [respect], "robustness": float(good)},
        "prompt_alignment": {
            "requirements": [{"requirement": text, "verdict": met, "reason": text}],
            **dict.fromkeys(("intent", "fulfilment", "completeness", "appropriateness"), float(good)),
        },
        "rubric": {"criteria": [{**judged, "criterion": 1, "verdict": met}]},
        "summarization": {"points": [{"point": text, "verdict": "covered"}], "claims": [claim]},
        "tool_call_judge": {
            "calls": [{"call": 1, "verdict": "right" if good else "needless", "reason": text}]
        },
        "toxicity": {"sentences": [{**judged, "verdict": "fine" if good else "toxic"}]},
        "trajectory_judge": {"steps": [{"step": 1, "necessary": good, "in_order": good, "reason": text}]},
    }
    return replies.get(name, {"claims": [claim]})
