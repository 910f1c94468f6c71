"""Commands of `otel-evals`: their output and options.

Register a Typer application or function under the entry-point group `otel_evals_command`.
"""

from otel_evals._internal.accounting.reasons import meaning
from otel_evals._internal.cli.backends import backend, backend_of_demo, send_spans_to, trace_link
from otel_evals._internal.cli.explain import explain_trace
from otel_evals._internal.cli.terminal import AsJson, done, echo, exit_on, json_text
from otel_evals._internal.config.validation import moment_of, seconds_of
from otel_evals._internal.judges.fence import Fence, visible
from otel_evals._internal.judges.resolver import resolve_judge
from otel_evals._internal.offline.results import bounds_cell, interval_cell, is_uneven, mean_cell
from otel_evals._internal.offline.tally import ScorerTally, kin_of, tally

__all__ = [
    "AsJson",
    "Fence",
    "ScorerTally",
    "backend",
    "backend_of_demo",
    "bounds_cell",
    "done",
    "echo",
    "exit_on",
    "explain_trace",
    "interval_cell",
    "is_uneven",
    "json_text",
    "kin_of",
    "mean_cell",
    "meaning",
    "moment_of",
    "resolve_judge",
    "seconds_of",
    "send_spans_to",
    "tally",
    "trace_link",
    "visible",
]
