"""Scores in Azure Monitor and Foundry, as custom events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from otel_evals import semconv
from otel_evals.destinations import EventPreset, SpansTo, server_url
from otel_evals.model import Evaluation, Run
from otel_evals_exporters._internal.requests import present

__all__ = ["AzurePreset"]


class AzurePreset(EventPreset):
    """Makes Azure Monitor's exporter write evaluation events to `customEvents`, which Foundry reads.

    Send logs with `azure-monitor-opentelemetry`; without this preset they go to `traces`.
    """

    name = "azure"
    needs = ("APPLICATIONINSIGHTS_CONNECTION_STRING",)

    def __init__(self, *, url: str | None = None) -> None:
        """Configure the preset; only the demo uses `url`.

        Args:
            url: base URL of an OpenTelemetry Collector that forwards to Azure.

        Raises:
            ConfigError: `url` is not an http URL.
        """
        self._url = url and server_url(url)

    def event_attributes(self, run: Run, evaluation: Evaluation) -> Mapping[str, Any]:
        judged_by = {
            "gen_ai.evaluator.name": evaluation.scorer_id,
            "gen_ai.evaluator.version": evaluation.scorer_version,
        }
        fields = {
            "microsoft.custom_event.name": semconv.GEN_AI_EVALUATION_RESULT,
            semconv.GEN_AI_AGENT_NAME: run.agent_name,
            "internal_properties": json.dumps(judged_by),
        }
        return present(fields)

    def spans_to(self) -> SpansTo:
        """Return the Collector's address: Azure has no OTLP address."""
        return (self._url, {}) if self._url else None
