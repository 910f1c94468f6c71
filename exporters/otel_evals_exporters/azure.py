"""Scores in Azure Monitor and Foundry, as custom events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from otel_evals import semconv
from otel_evals.destinations import EventPreset, base_url
from otel_evals.model import Evaluation, Run

__all__ = ["AzurePreset"]


class AzurePreset(EventPreset):
    """Has Azure Monitor's exporter write evaluation events to `customEvents`, where Foundry looks for them.

    Send logs with `azure-monitor-opentelemetry`; without this preset they end in `traces`.
    """

    name = "azure"
    needs = ("APPLICATIONINSIGHTS_CONNECTION_STRING",)

    def __init__(self, *, url: str | None = None) -> None:
        """Take the attributes for Azure.

        Args:
            url: base URL of an OpenTelemetry Collector that sends on to Azure; matters to the demo only.

        Raises:
            ConfigError: it is no URL.
        """
        self._url = url and base_url(url, "url")

    def event_attributes(self, run: Run, evaluation: Evaluation) -> Mapping[str, Any]:
        """The event's name as Azure reads it, and who was judged by what."""
        judged_by = {
            "gen_ai.evaluator.name": evaluation.scorer_id,
            "gen_ai.evaluator.version": evaluation.scorer_version,
        }
        attributes = {
            "microsoft.custom_event.name": semconv.GEN_AI_EVALUATION_RESULT,
            semconv.GEN_AI_AGENT_NAME: run.agent_name,
            "internal_properties": json.dumps(judged_by),
        }
        return {key: value for key, value in attributes.items() if value is not None}

    def spans_to(self) -> tuple[str, Mapping[str, str]] | None:
        """The Collector's address: Azure has none of its own for OTLP."""
        return (self._url, {}) if self._url else None
