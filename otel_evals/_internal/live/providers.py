"""Creates OpenTelemetry providers for processes that have none, with OTLP export if an endpoint is set.

They do not become the global providers: a library that is set up later would use them instead of its own, and
its exporters and resource would be missing. The API's proxies use them until a library sets global providers.
The API has no public way for this; this is the only module that uses its private fields, each access guarded.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from threading import Thread
from types import ModuleType
from typing import Any

import opentelemetry._logs._internal as logs_api
from opentelemetry import _logs, metrics, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from otel_evals._internal.attach.providers import unwrapped
from otel_evals._internal.util.installed import install_hint
from otel_evals.errors import ConfigError

_logger = logging.getLogger(__name__)
_SET = "_set_tracer_provider"
_FIELD = "_TRACER_PROVIDER"
_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_LATE = (
    "otel-evals: an OTLP endpoint did not answer in time, so the last spans, evaluation events or metrics "
    "are lost; fix: start its server, or correct its address"
)
_PROXIED = "_otel_evals_proxied"
"""Field of a proxy with its tracer or logger and their provider; of a replaced function, the API's own."""


@dataclass(slots=True)
class Providers:
    """Providers of the three signals; None if there is none."""

    tracers: Any = None
    loggers: Any = None
    meters: Any = None
    evaluations: Any = None
    """Separate tracer provider for evaluation spans."""

    def force_flush(self, timeout_millis: int) -> bool:
        """Flush all providers; see `flush`."""
        return flush((self.tracers, self.evaluations, self.loggers, self.meters), timeout_millis)

    def shutdown(self, timeout: float) -> None:
        """Shut down all providers in time, the meter provider last: it reports losses of the others."""
        deadline = time.monotonic() + timeout
        for providers in ((self.tracers, self.loggers), (self.meters,)):
            if not _in_time([each.shutdown for each in providers if each is not None], deadline):
                _logger.warning(_LATE)
        self.tracers = self.loggers = self.meters = None


def flush(providers: Iterable[Any], timeout_millis: int) -> bool:
    """Flush providers at the same time; return True if all finished in time. Never raises.

    Each has its own thread, because the SDK's processors may exceed their timeout. A processor whose exporter
    logs errors by the same processor never returns.

    Providers without `force_flush`, such as the API's own, are skipped.
    """
    deadline = time.monotonic() + timeout_millis / 1000
    flushes = [each.force_flush for each in providers if hasattr(each, "force_flush")]
    return _in_time([partial(flush, timeout_millis) for flush in flushes], deadline)


def _in_time(calls: Sequence[Callable[[], Any]], deadline: float) -> bool:
    """Call functions of providers at the same time; return True if none failed or is late."""
    done: list[bool] = []

    def run(call: Callable[[], Any]) -> None:
        try:
            # Only False means failure: some providers return None.
            done.append(call() is not False)
        except BaseException:  # processors of other libraries may raise anything
            _logger.warning("a provider could not be flushed", exc_info=True)

    threads = [Thread(target=run, args=(each,), name="otel-evals-flush", daemon=True) for each in calls]
    for thread in threads:
        try:
            thread.start()
        except RuntimeError:  # no thread can be started, as at the end of some interpreters
            thread.run()
    for thread in threads:
        if thread.ident is not None:
            thread.join(max(0.0, deadline - time.monotonic()))
    return done == [True] * len(calls)


def make_missing(given: Providers, made: Providers) -> Providers:
    """Create the providers that are neither given nor set; for logs and metrics only with an OTLP endpoint.

    Returns:
        The given providers, else the global ones, else the created ones.

    Raises:
        ConfigError: an OTLP endpoint is set and the exporter is not installed.
    """
    tracers = given.tracers or trace.get_tracer_provider()
    # Logs and metrics share the resource of the application's spans.
    resource = getattr(unwrapped(tracers), "resource", None)
    if isinstance(tracers, trace.ProxyTracerProvider):
        made.tracers = tracers = made.tracers or _new_tracers()
    loggers = given.loggers or _logs.get_logger_provider()
    if goes_nowhere(loggers) and (made.loggers or _exports("LOGS")):
        made.loggers = loggers = made.loggers or _new_loggers(resource)
    meters = given.meters or metrics.get_meter_provider()
    if goes_nowhere(meters) and (made.meters or _exports("METRICS")):
        made.meters = meters = made.meters or _new_meters(resource)
    return Providers(tracers, loggers, meters, given.evaluations)


def _new_tracers() -> TracerProvider:
    # Its own exit handler could end it before the last runs are scored.
    provider = TracerProvider(shutdown_on_exit=False)
    if _exports("TRACES"):
        exporter = _exporter("TRACES", "trace_exporter", "OTLPSpanExporter")
        provider.add_span_processor(BatchSpanProcessor(exporter))
    names = ("_instrumenting_module_name", "_instrumenting_library_version", "_schema_url", "_attributes")
    if not _serve_proxies(
        trace.ProxyTracer, "_tracer", lambda *a: _OwnTracer(provider.get_tracer(*a)), names
    ):
        trace.set_tracer_provider(provider)
    return provider


class _OwnTracer(trace.NoOpTracer):
    """A tracer of a created provider, which to libraries looks like none: LangSmith examines the tracer."""

    def __init__(self, own: trace.Tracer) -> None:
        self.start_span = own.start_span  # type: ignore[method-assign]
        self.start_as_current_span = own.start_as_current_span  # type: ignore[method-assign]


def _new_loggers(resource: Any) -> LoggerProvider:
    provider = LoggerProvider(resource, shutdown_on_exit=False)
    exporter = _exporter("LOGS", "_log_exporter", "OTLPLogExporter")
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    names = ("_name", "_version", "_schema_url", "_attributes")
    if not _serve_proxies(getattr(logs_api, "ProxyLogger", None), "_logger", provider.get_logger, names):
        _logs.set_logger_provider(provider)
    return provider


def _new_meters(resource: Any) -> MeterProvider:
    readers = [PeriodicExportingMetricReader(_exporter("METRICS", "metric_exporter", "OTLPMetricExporter"))]
    provider = MeterProvider(readers, resource, shutdown_on_exit=False)
    serve = getattr(metrics.get_meter_provider(), "on_set_meter_provider", metrics.set_meter_provider)
    serve(provider)
    return provider


def _serve_proxies(proxy: Any, field: str, get: Callable[..., Any], names: Sequence[str]) -> bool:
    """Let the API's proxies use a created provider while none is set; False if this API has other fields.

    Args:
        proxy: the class of the proxies.
        field: its property that returns the tracer or logger behind a proxy.
        get: the provider's function that returns one.
        names: the fields of a proxy with the arguments of `get`.
    """
    find: Any = getattr(getattr(proxy, field, None), "fget", None)
    # The API's own function, also if it was replaced before.
    find, idle = getattr(find, _PROXIED, find), f"_noop{field}"
    if find is None or not all(hasattr(proxy(""), name) for name in (idle, *names)):
        return False

    def found(self: Any) -> Any:
        behind = find(self)
        # A global provider has been set, and takes precedence.
        if behind is not getattr(self, idle):
            return behind
        own = self.__dict__.get(_PROXIED)
        if own is None or own[0] is not get:
            own = self.__dict__[_PROXIED] = get, get(*(getattr(self, name) for name in names))
        return own[1]

    setattr(found, _PROXIED, find)
    setattr(proxy, field, property(found))
    return True


def goes_nowhere(provider: object) -> bool:
    """Return True for a provider of logs or metrics of the API, which does nothing."""
    return provider is None or type(provider).__module__.startswith(
        ("opentelemetry._logs.", "opentelemetry.metrics.")
    )


def _exports(signal: str) -> bool:
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if os.environ.get(f"OTEL_{signal}_EXPORTER", "otlp").strip().lower() == "none":
        return False
    return bool(os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT") or os.environ.get(_ENDPOINT))


def _exporter(signal: str, module: str, name: str) -> Any:
    """Build the OTLP exporter for the protocol in the environment, of this signal or of all signals."""
    variable = f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL"
    if not os.environ.get(variable):
        variable = "OTEL_EXPORTER_OTLP_PROTOCOL"
    protocol = (os.environ.get(variable) or "http/protobuf").strip().lower()
    kinds = {"grpc": "grpc", "http/protobuf": "http"}
    if protocol not in kinds:
        raise ConfigError(variable, f"{protocol!r} is unknown; use grpc or http/protobuf")
    path = f"opentelemetry.exporter.otlp.proto.{kinds[protocol]}.{module}"
    try:
        return getattr(import_module(path), name)()
    except ImportError as error:
        problem = f"is set, but the exporter is missing: {install_hint('otlp')} ({error})"
        raise ConfigError(_ENDPOINT, problem) from error


def not_scorable(tracers: Any) -> str:
    """Return why a tracer provider's spans are not scored, and the fix."""
    name = f"{type(tracers).__module__}.{type(tracers).__qualname__}"
    return (
        f"{name} takes no span processors, so its spans are not scored; give your agent's instrumentation "
        "a TracerProvider of opentelemetry.sdk, and pass it as tracer_provider="
    )


def notice_tracer_providers(notify: Callable[[Any], object]) -> None:
    """Call a function with each global tracer provider that is set later.

    MLflow assigns the API's field instead of calling `set_tracer_provider`.
    """
    set_provider: Any = getattr(trace, _SET, None)
    if set_provider is None or isinstance(trace, _Noticing):
        return

    def noticed(tracer_provider: Any) -> None:
        if tracer_provider is not None and getattr(trace, _FIELD, None) is tracer_provider:
            try:
                notify(tracer_provider)
            except Exception:
                _logger.warning("a tracer provider that was set later is not scored", exc_info=True)

    def set_and_notify(tracer_provider: Any, log: bool = True) -> None:
        set_provider(tracer_provider, log)
        noticed(tracer_provider)

    setattr(trace, _SET, set_and_notify)
    _Noticing.noticed = staticmethod(noticed)
    # An assignment to a module's field calls `__setattr__` only if the module's class defines it.
    trace.__class__ = _Noticing


class _Noticing(ModuleType):
    """The API's module, which notices assignments from outside to the field of the tracer provider."""

    noticed: Callable[[Any], None]

    def __reduce__(self) -> tuple[Any, ...]:  # as modules are pickled by name
        return import_module, (self.__name__,)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == _FIELD:
            self.noticed(value)
