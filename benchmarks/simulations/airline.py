"""Samples of real conversations with known outcomes."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from simulations.tables import row, table
from simulations.traffic import sums_of
from simulations.windows import hajek_plus_4, unweighted


@dataclass(frozen=True)
class Conversation:
    """Input of the designs, from one real conversation."""

    value: float
    tool_errors: bool
    length: int


def airline_conversations(path: Path) -> list[Conversation]:
    """From airline.jsonl."""
    _, *lines = (json.loads(line) for line in path.read_text().splitlines())
    return [
        Conversation(
            value=float(line["reward"]),
            tool_errors=any(
                m["role"] == "tool" and str(m["content"]).startswith("Error") for m in line["messages"]
            ),
            length=len(line["messages"]),
        )
        for line in lines
    ]


def airline_coverage(
    found: Sequence[Conversation], design: str, rate: float, repetitions: int
) -> tuple[float, float, float]:
    """Percent of samples whose interval contains the full mean, unweighted and Hajek+4; the unweighted
    mean."""
    rng = np.random.default_rng([8, int(100 * rate), *design.encode()])
    x = np.array([each.value for each in found])
    long = float(np.quantile([each.length for each in found], 0.75))
    flagged = {
        "ratio": np.zeros(len(x), bool),
        "tool errors": np.array([each.tool_errors for each in found]),
        "long": np.array([each.length > long for each in found]),
        "failure-linked": (x == 0) & (np.arange(len(x)) % 2 == 0),
    }[design]
    probability = np.where(flagged, 1.0, rate)
    today, weighted, means = [], [], []
    for _ in range(repetitions):
        picked = rng.random(len(x)) < probability
        if picked.any():
            sums = sums_of(x[picked], 1 / probability[picked])
            today.append(x.mean() in unweighted(sums, x[picked].sum()))
            weighted.append(x.mean() in hajek_plus_4(sums))
            means.append(x[picked].mean())
    return 100 * fmean(today), 100 * fmean(weighted), fmean(means)


def airline(scale: float) -> None:
    """Samples of a hundred real conversations."""
    folder = os.environ.get("OTEL_EVALS_TRAFFIC")
    if not folder:
        print("OTEL_EVALS_TRAFFIC is not set")
        return
    found = airline_conversations(Path(folder) / "airline.jsonl")
    print(f"{len(found)} conversations, mean {fmean(each.value for each in found):.3f}")
    table("design", "rate", "unweighted mean", "covers unweighted", "Hajek+4", "expected")
    expected = {
        "ratio": ("96 / 98.6", "98 / 98.7"),
        "tool errors": ("96 / 98.8 (.320)", "97 / 98.5"),
        "long": ("84 / 98.2 (.296)", "92 / 98.4"),
        "failure-linked": ("0.0 / 97.2 (.129)", "5.8 / 97.8 (.228)"),
    }
    for design, figures in expected.items():
        for rate, figure in zip((0.1, 0.25), figures, strict=True):
            today, weighted, mean = airline_coverage(found, design, rate, int(2000 * scale) + 20)
            row(design, rate, f"{mean:.3f}", f"{today:.1f}", f"{weighted:.1f}", figure)
