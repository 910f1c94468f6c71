"""Every scorer on every run that real frameworks recorded: how many are scored, not scored, failed.

    OTEL_EVALS_CAPTURES=FOLDER python benchmarks/scorers_on_captures.py

FOLDER holds OTLP files and a MANIFEST.json that names them. The runs go through the engine's rules, workers
and timeouts, as `otel-evals score` has it. Judges answer every question in its form, without a model.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from otel_evals import scorers
from otel_evals._internal.config.loader import build_config
from otel_evals._internal.model.convention import load_conventions
from otel_evals._internal.offline import tally
from otel_evals._internal.offline.batch import BatchScorer
from otel_evals._internal.otlp.files import read_traces
from otel_evals._internal.read.runs import read_runs
from otel_evals.model import Run
from otel_evals.scorers import Scorer, checks

sys.path.insert(0, str(Path(__file__).parents[1]))
EXPECTED = "It is sunny in Paris."


def in_code() -> list[Scorer]:
    return [
        scorers.answered(),
        scorers.completeness(),
        scorers.content_similarity(),
        scorers.grounded_in_tools(),
        scorers.keyword_coverage(),
        scorers.no_secrets(),
        scorers.repeated_calls(),
        scorers.same_language(),
        scorers.textual_difference(),
        scorers.tone_consistency(),
        scorers.tool_call_accuracy(expected_tool="get_weather"),
        scorers.tool_error_rate(),
        scorers.trajectory_accuracy(expected=["get_weather"]),
        scorers.trajectory_quality({"max_steps": 3, "max_tokens": 500, "max_seconds": 5}),
        scorers.unrecovered_tool_errors(),
        scorers.valid_json(),
        scorers.within_budget(max_tokens=500, max_seconds=5),
        checks.includes("weather"),
        checks.excludes("error"),
        checks.equals(EXPECTED),
        checks.matches(r"\d"),
        checks.similarity(EXPECTED),
        checks.called_tool("get_weather"),
        checks.did_not_call("delete_account"),
        checks.tool_order(["get_weather"]),
        checks.max_tool_calls(3),
        checks.used_no_tools(),
        checks.no_tool_errors(),
    ]


def by_judge() -> list[Scorer]:
    from tests.support.auto_judge import AutoJudge

    judge = AutoJudge()
    return [
        scorers.answer_relevancy(judge),
        scorers.answer_similarity(judge),
        scorers.bias(judge),
        scorers.classifier(judge, question="What is it about?", classes={"weather": 1, "else": 0}),
        scorers.context_precision(judge),
        scorers.context_recall(judge),
        scorers.context_relevance(judge),
        scorers.factuality(judge),
        scorers.faithfulness(judge),
        scorers.hallucination(judge),
        scorers.multi_turn_judge(judge, criterion="Stays polite."),
        scorers.noise_sensitivity(judge, baseline_response="It is sunny.", noisy_query="wether??"),
        scorers.prompt_alignment(judge),
        scorers.rubric(judge, criteria=["names a place"]),
        scorers.summarization(judge),
        scorers.tool_call_judge(judge),
        scorers.toxicity(judge),
        scorers.trajectory_judge(judge),
    ]


def captured(folder: Path) -> Iterator[Run]:
    """The runs of each capture with their log records, and an expected answer."""
    for entry in json.loads((folder / "MANIFEST.json").read_text()):
        files = [str(folder / name) for name in (entry["file"], entry.get("logs_file")) if name]
        for run in read_runs(read_traces(files), load_conventions()):
            yield replace(run, ground_truth=EXPECTED, trace_flags=1)


def main() -> None:
    folder = Path(os.environ.get("OTEL_EVALS_CAPTURES") or sys.exit("name the folder in OTEL_EVALS_CAPTURES"))
    config = build_config([*in_code(), *by_judge()])
    with BatchScorer(config) as scorer:
        found = [e for _, ends in scorer.score_all((None, run) for run in captured(folder)) for e in ends]
        stats = scorer.stats()
    assert stats.check() == []
    print(f"{stats.seen} runs\n\n| scorer | scored | not scored | failed | why not |\n|---|--:|--:|--:|---|")
    for each in tally(config.rules, found):
        reasons = sorted({**each.not_scored, **each.failed}.items(), key=lambda pair: -pair[1])
        why = ", ".join(f"{reason} {count}" for reason, count in reasons)
        counts = f"{each.scored} | {sum(each.not_scored.values())} | {sum(each.failed.values())}"
        print(f"| {each.scorer_id} | {counts} | {why} |")


if __name__ == "__main__":
    main()
