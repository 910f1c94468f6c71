"""Links from runs to their traces in a tracing backend."""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from otel_evals.errors import ConfigError

BACKENDS = {
    "phoenix": "/redirects/traces/{trace_id}",
    "jaeger": "/trace/{trace_id}",
    "zipkin": "/zipkin/traces/{trace_id}",
    "mlflow": "/#/traces/tr-{trace_id}",
    "langfuse": "/trace/{trace_id}",
}
"""Path of a trace's page, by backend."""
_IDS = {"trace_id", "span_id"}
_FIELDS = {*_IDS, "time"}


@dataclass(frozen=True, slots=True)
class TraceLink:
    """Builds the addresses of traces from a template; without one, there are no links."""

    template: str | None = None

    @classmethod
    def parse(cls, text: str | None) -> TraceLink:
        """Parse an option: `jaeger=http://localhost:16686`, or an address with `{trace_id}` or `{span_id}`.

        An address may also contain `{time}` (milliseconds since the Unix epoch).
        """
        if not text:
            return cls()
        name, _, base = text.partition("=")
        if name in BACKENDS:
            text = base.rstrip("/") + BACKENDS[name]
        if urlsplit(text).scheme not in ("http", "https"):
            known = f"{', '.join(BACKENDS)}=http://..."
            raise ConfigError("--link", f"{text!r} is neither an http address nor one of {known}")
        try:
            fields = {field for _, field, _, _ in string.Formatter().parse(text) if field is not None}
        except ValueError as error:
            raise ConfigError("--link", f"{text!r}: {error}") from None
        if not fields & _IDS or fields - _FIELDS:
            problem = "must contain {trace_id} or {span_id}, and may contain {time}"
            raise ConfigError("--link", f"{text!r} {problem}")
        return cls(text)

    def to(self, run: Any) -> str | None:
        """Return the address of a run's trace; `run` has `trace_id`, `span_id` and `time` in seconds."""
        if self.template is None:
            return None
        ids = {name: quote(str(getattr(run, name)), safe="") for name in ("trace_id", "span_id")}
        return self.template.format(**ids, time=int(run.time) * 1000)
