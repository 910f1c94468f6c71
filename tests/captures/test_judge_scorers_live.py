"""Every judge scorer judges every run that real frameworks recorded, without a special case.

The captures are not part of the repository: name their folder in OTEL_EVALS_CAPTURES. With `-s` the table of
outcomes is printed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from otel_evals import scorers
from otel_evals._internal.otlp.files import read_traces
from otel_evals._internal.read.runs import find_runs
from otel_evals._internal.read.split_runs import join_split_runs
from otel_evals.conventions import load_conventions
from otel_evals.model import NotScored, Run, Score
from otel_evals.scorers import Scorer
from tests.support.auto_judge import AutoJudge
from tests.support.captures import FOLDERS, entries, paths_of

pytestmark = pytest.mark.skipif(not FOLDERS, reason="OTEL_EVALS_CAPTURES names no folder of captures")

EXPECTED = "It is sunny in Paris."


def built() -> list[Scorer]:
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
        scorers.failure_step(judge, categories={"text": "any"}),
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


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    conventions = load_conventions()
    found: list[Run] = []
    for folder, entry in entries():
        traces = read_traces(paths_of(folder, entry))
        trees = (run for trace in traces for run in find_runs(trace, conventions))
        found += join_split_runs(trees)
    return found


@pytest.mark.slow
def test_every_judge_scorer_scores_or_says_why_not(runs: list[Run]) -> None:
    assert len(runs) > 100
    for scorer in built():
        ends: Counter[str] = Counter()
        reasons: Counter[str] = Counter()

        async def judge(
            scorer: Scorer = scorer, ends: Counter[str] = ends, reasons: Counter[str] = reasons
        ) -> None:
            for run in runs:
                outcome = await scorer.score(replace(run, ground_truth=EXPECTED))
                ends[type(outcome).__name__] += 1
                if isinstance(outcome, NotScored):
                    reasons[outcome.reason] += 1
                else:
                    assert isinstance(outcome, Score)
                    assert outcome.explanation

        asyncio.run(judge())
        assert ends["Score"] + ends["NotScored"] == len(runs), "no run fails"
        assert ends["Score"] > 0, scorer.id
        why = ", ".join(f"{reason} {n}" for reason, n in reasons.most_common())
        print(f"{scorer.id:<20} scored {ends['Score']:>4}  not scored {ends['NotScored']:>4}  {why}")
