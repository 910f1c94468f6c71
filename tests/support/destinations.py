"""Every destination that sends something, pointed at a server on loopback that answers like its backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from otel_evals.destinations import ApiDestination
from otel_evals_exporters.arize import ArizeDestination
from otel_evals_exporters.braintrust import BraintrustDestination
from otel_evals_exporters.datadog import DatadogDestination
from otel_evals_exporters.dynatrace import DynatraceDestination
from otel_evals_exporters.langfuse import LangfuseDestination
from otel_evals_exporters.langsmith import LangsmithDestination
from otel_evals_exporters.mlflow import MlflowDestination
from otel_evals_exporters.opik import OpikDestination
from otel_evals_exporters.phoenix import PhoenixDestination
from otel_evals_exporters.posthog import PosthogDestination
from otel_evals_exporters.weave import WeaveDestination
from tests.support.recording_server import RecordedRequest, Reply

__all__ = ["BY_NAME", "KEY", "PROJECT_ID", "accept", "destination"]

KEY = "sk-very-secret-0123456789"
PROJECT_ID = "0b0f3f4e-8f0a-4a61-9d21-5f0b6bb5f3a1"

BY_NAME: dict[str, Callable[..., ApiDestination]] = {
    "arize": lambda url, **o: ArizeDestination(url=url, api_key=KEY, project_id="p1", **o),
    "braintrust": lambda url, **o: BraintrustDestination(url=url, api_key=KEY, parent="project_name:p", **o),
    "datadog": lambda url, **o: DatadogDestination(url=url, api_key=KEY, **o),
    "dynatrace": lambda url, **o: DynatraceDestination(url=url, api_token=KEY, **o),
    "langfuse": lambda url, **o: LangfuseDestination(url=url, public_key="pk-1", secret_key=KEY, **o),
    "langsmith": lambda url, **o: LangsmithDestination(url=url, api_key=KEY, project="shop", **o),
    "mlflow": lambda url, **o: MlflowDestination(url=url, token=KEY, **o),
    "opik": lambda url, **o: OpikDestination(url=url, api_key=KEY, workspace="w", project="shop", **o),
    "phoenix": lambda url, **o: PhoenixDestination(url=url, api_key=KEY, **o),
    "posthog": lambda url, **o: PosthogDestination(url=url, api_key=KEY, **o),
    "weave": lambda url, **o: WeaveDestination(url=url, api_key=KEY, entity="e", project="p", **o),
}


def destination(name: str, url: str, **options: Any) -> ApiDestination:
    """A destination for the server at this address."""
    return BY_NAME[name](url, **options)


def accept(request: RecordedRequest) -> Reply:
    """What a backend answers when all is well."""
    if request.path == "/api/v1/sessions":
        return Reply(body=f'[{{"id": "{PROJECT_ID}"}}]'.encode())
    return Reply()
