"""CPU microseconds on the engine's thread to decide about a run and to write the trace log.

python benchmarks/deciding.py
"""

from __future__ import annotations

import random
import time

from otel_evals import Rule, sampling
from otel_evals._internal.accounting.ledger import Ledger
from otel_evals._internal.sampling.decide import Decider
from otel_evals.model import Operation, OperationKind, Run, SpanRecord
from otel_evals.scorers import scorer

RUNS = 20_000
CASES = {
    "always()": [sampling.always()],
    "ratio(0.1)": [sampling.ratio(0.1)],
    "always(), ratio(0.1)": [sampling.always(), sampling.ratio(0.1)],
    "per_minute(10)": [sampling.per_minute(10)],
    "ratio(0.01) | stratified": [sampling.ratio(0.01) | sampling.stratified("agent_name", 10)],
}


def make_run(number: int, rng: random.Random) -> Run:
    trace_id, span_id = f"{rng.getrandbits(128):032x}", f"{number:016x}"
    span = SpanRecord(trace_id=trace_id, span_id=span_id)
    operations = tuple(
        Operation(span=span, kind=OperationKind.AGENT, convention="otel_genai") for _ in range(3)
    )
    return Run(
        trace_id=trace_id,
        root_span_id=span_id,
        root_kind=OperationKind.AGENT,
        agent_name=f"agent{number % 20}",
        operations=operations,
    )


def measure(samplers: list[sampling.Sampler], runs: list[Run]) -> tuple[float, float]:
    """Deciding and accounting for it, and accounting for the assembly, per run."""
    rules = [
        Rule(scorer(id=f"r{i}", version="1")(lambda run: 1.0), sample=sample)
        for i, sample in enumerate(samplers)
    ]
    ledger, decider = Ledger([rule.name for rule in rules]), Decider(rules)
    start = time.thread_time()
    for run in runs:
        ledger.trace_log.assembled(run.trace_id, 3, [run])
    middle = time.thread_time()
    for run in runs:
        ledger.decided(run, decider.decide(run, "run")[1])
    end = time.thread_time()
    return (end - middle) / len(runs) * 1e6, (middle - start) / len(runs) * 1e6


if __name__ == "__main__":
    rng = random.Random(1)
    runs = [make_run(number, rng) for number in range(RUNS)]
    for words, samplers in CASES.items():
        deciding, assembled = measure(samplers, runs)
        print(f"{words:28} {deciding:6.1f} us deciding, {assembled:5.1f} us accounting for the assembly")
