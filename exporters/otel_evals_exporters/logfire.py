"""Scores in Pydantic Logfire, which reads evaluation events."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from otel_evals.destinations import EventPreset, SpansTo, server_url
from otel_evals.model import Evaluation, Run

__all__ = ["LogfirePreset"]


class LogfirePreset(EventPreset):
    """Adds the attributes that Logfire groups evaluation events by: the agent and the scorer's version.

    Send the events to Logfire with any log exporter, such as its SDK's.
    """

    name = "logfire"
    needs = ("LOGFIRE_TOKEN",)

    def __init__(self, *, url: str | None = None) -> None:
        """Configure the preset; only the demo uses `url`.

        Args:
            url: base URL; by default LOGFIRE_BASE_URL, or https://logfire-us.pydantic.dev.

        Raises:
            ConfigError: `url` is not an http URL.
        """
        self._url = server_url(url, "LOGFIRE_BASE_URL", default="https://logfire-us.pydantic.dev")

    def event_attributes(self, run: Run, evaluation: Evaluation) -> Mapping[str, Any]:
        return {
            "gen_ai.evaluation.target": run.agent_name or run.root_kind.value,
            "gen_ai.evaluation.evaluator_version": evaluation.scorer_version,
        }

    def spans_to(self) -> SpansTo:
        return self._url, {"authorization": os.environ.get("LOGFIRE_TOKEN", "")}
