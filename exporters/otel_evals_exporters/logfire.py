"""Scores in Pydantic Logfire, which reads evaluation events."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from otel_evals.destinations import EventPreset, base_url
from otel_evals.model import Evaluation, Run

__all__ = ["LogfirePreset"]


class LogfirePreset(EventPreset):
    """Adds to evaluation events what Logfire groups and filters them by: the agent, and the scorer's version.

    Logfire shows the events of a log exporter that sends to it, such as that of its own SDK.
    """

    name = "logfire"
    needs = ("LOGFIRE_TOKEN",)

    def __init__(self, *, url: str | None = None) -> None:
        """Take the attributes for Logfire; `url` matters to the demo only.

        Args:
            url: base URL; LOGFIRE_BASE_URL, or https://logfire-us.pydantic.dev, unless given.

        Raises:
            ConfigError: it is no URL.
        """
        given = url or os.environ.get("LOGFIRE_BASE_URL") or "https://logfire-us.pydantic.dev"
        self._url = base_url(given, "url")

    def event_attributes(self, run: Run, evaluation: Evaluation) -> Mapping[str, Any]:
        """Whom Logfire shows as judged, and by which version."""
        return {
            "gen_ai.evaluation.target": run.agent_name or run.root_kind.value,
            "gen_ai.evaluation.evaluator_version": evaluation.scorer_version,
        }

    def spans_to(self) -> tuple[str, Mapping[str, str]] | None:
        """Logfire's own OTLP address."""
        return self._url, {"authorization": os.environ.get("LOGFIRE_TOKEN", "")}
