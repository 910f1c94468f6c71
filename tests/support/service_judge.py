"""The service, traced as a server is that takes part in its callers' traces."""

from __future__ import annotations

from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware

from tests.support import service

app = OpenTelemetryMiddleware(service.app)
