"""The monitor: results store, report, alarms and page.

The destination `results` writes scores to the store; `otel-evals monitor` serves the page.
"""

from otel_evals_monitor._internal.alarms.section import AlarmOptions
from otel_evals_monitor._internal.destination import ResultsDestination

__all__ = ["AlarmOptions", "ResultsDestination"]
