"""The service, traced as a server is that takes part in its callers' traces."""

from __future__ import annotations

import service
from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware

app = OpenTelemetryMiddleware(service.app)
