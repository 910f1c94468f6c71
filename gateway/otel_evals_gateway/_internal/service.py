"""The service: receivers and scoring, from start to shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from opentelemetry import metrics

from otel_evals import Config
from otel_evals.conventions import load_conventions
from otel_evals.destinations import plain
from otel_evals.errors import ConfigError
from otel_evals.sdk.pipeline import Providers, QuietClosing
from otel_evals_gateway._internal.configuration import ConfigReload, check
from otel_evals_gateway._internal.counters import TrafficCounters, prometheus_page
from otel_evals_gateway._internal.forwarder import Forwarder
from otel_evals_gateway._internal.held_spans import HeldSpans
from otel_evals_gateway._internal.inline import Inline
from otel_evals_gateway._internal.journal import ReceivedJournal
from otel_evals_gateway._internal.kafka import kafka_source, observe
from otel_evals_gateway._internal.options import hold_seconds, host_and_port, options_of
from otel_evals_gateway._internal.receiver.access import BearerTokens, tls_context
from otel_evals_gateway._internal.receiver.decoder import Signal
from otel_evals_gateway._internal.receiver.grpc_receiver import GrpcReceiver, grpc_credentials
from otel_evals_gateway._internal.receiver.http_receiver import HttpReceiver
from otel_evals_gateway._internal.receiver.receiver import Page, RequestLimits
from otel_evals_gateway._internal.receiver.selection import Selector
from otel_evals_gateway._internal.scoring_engine import ScoringEngine
from otel_evals_gateway._internal.tap import PUT_SECONDS, Tap

_logger = logging.getLogger(__name__)
_RELOAD_SECONDS = 1.0


class Gateway:
    """Receives OTLP and scores it; reads the rules in `path`, the configuration's file, when it changes.

    Raises:
        ConfigError: a file that the configuration names cannot be used.
    """

    def __init__(self, config: Config, providers: Providers | None = None, path: Path | None = None) -> None:
        self.options = options = options_of(config)
        check(config)
        self._config = config
        self._ready = False
        self.ports: dict[str, int] = {}
        """Listening ports, by protocol."""
        self._reloads: list[Callable[[], None]] = []
        tokens = None
        if options.tokens is not None:
            tokens = BearerTokens(options.tokens)
            self._reloads.append(tokens.reload)
        self._tls = None
        if options.tls is not None:
            self._tls, reload = tls_context(options.tls)
            self._reloads.append(reload)
        providers = providers or Providers()
        meters, self._metrics = prometheus_page(providers.meters or metrics.get_meter_provider())
        # Before anything creates an instrument: a replaced provider would not see it.
        providers = replace(providers, meters=meters)
        self._limits = RequestLimits(options)
        self._conventions = load_conventions()
        self.traffic = TrafficCounters(self._limits.answers)
        self._held_spans = self._hold()
        self._journal: ReceivedJournal | None = None
        if config.journal is not None:
            self._journal = ReceivedJournal(config.journal)
            if self._journal.problem is not None:
                raise ConfigError("journal", f"{self._journal.problem}; fix: leave it out")
        self._kafka = kafka_source(options.kafka, config) if options.kafka else None
        source = self._journal if self._kafka is None else self._kafka.reports
        closing = QuietClosing if self._kafka is None else self._kafka.closing
        self.scoring = ScoringEngine(config, self._conventions, providers, self._held_spans, source, closing)
        if self._kafka is not None:
            observe(self._kafka, self.scoring.meter)
        if self._journal is not None:
            self._journal.engine = self.scoring.engine
            self.scoring.gatherer.keeps = self._journal.keeps
        self.traffic.observe(self.scoring.meter)
        self._tap = Tap(self._selector(config), self.scoring, self.traffic, self._journal)
        self._inline = self._forward()
        take = self._tap.take if self._inline is None else self._inline.take
        signals: tuple[Signal, ...] = ("traces", "logs", *(("metrics",) if self._inline else ()))
        pages: dict[str, Page] = {
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            "/stats": self._stats,
            "/metrics": self._metrics,
        }
        self._http = HttpReceiver(take, signals, self._limits, tokens, pages)
        self._grpc = GrpcReceiver(take, signals, self._limits, tokens)
        meter = self.scoring.meter
        self._config_reload = None if path is None else ConfigReload(path, config, self._use_rules, meter)

    def reload(self) -> None:
        """Request that the configuration file is read again."""
        if self._config_reload is not None:
            self._config_reload.request()

    async def serve(self, stop: asyncio.Event, started: Callable[[], object] = lambda: None) -> None:
        """Receive and score until `stop` is set; then answer and score everything in progress.

        Calls `started` once all receivers listen. Raises ConfigError if an address cannot be used.
        """
        stopping = asyncio.ensure_future(stop.wait())
        tasks = [stopping, asyncio.ensure_future(self._reload())]
        try:
            if self._inline is not None:
                self._inline.start()
            # Its pages are there from the start, however long the replay takes.
            self._limits.closed = "the service is starting"
            await self._listen()
            if self._journal is not None:
                # What an earlier process held inline stays in the journal of a tap.
                hold = (lambda _: None) if self._inline is None else self._inline.hold
                tasks.append(asyncio.ensure_future(self._journal.replay(self._tap.take_again, hold)))
                # Before requests are taken: no trace is to be judged without its first spans.
                await next(iter(asyncio.as_completed([stopping, tasks[-1]])))
            self._limits.closed = None
            if self._kafka is not None:
                self._kafka.start(self._tap)
            self._ready = True
            to = f"spans are forwarded to {self.options.forward}" if self._inline else "nothing is forwarded"
            _logger.info("%s; %s", self.scoring.engine.summary(), to)
            started()
            await stopping
        finally:
            for task in tasks:
                task.cancel()
            await self._drain()

    async def _listen(self) -> None:
        options = self.options
        credentials = None if options.tls is None else grpc_credentials(options.tls)
        for name, address, start, tls in (
            ("http", options.http, self._http.start, self._tls),
            ("grpc", options.grpc, self._grpc.start, credentials),
        ):
            if address is None:
                continue
            host, port = host_and_port(address)
            try:
                self.ports[name] = await start(host, port, tls)
            except OSError as error:
                raise ConfigError(f"gateway.{name}", f"{address} cannot be used: {error}") from error
            _logger.info("listening for OTLP over %s on %s:%d", name, host, self.ports[name])

    async def _drain(self) -> None:
        """Refuse new requests, answer those in progress, then score and deliver within the time."""
        self._ready = False
        # First of all: what is accepted from here on could not be scored in time.
        self._limits.closed = "the service is shutting down"
        deadline = time.monotonic() + self._config.shutdown_timeout
        await self._http.stop_listening()
        if self._kafka is not None:
            await asyncio.to_thread(self._kafka.stop_taking, deadline - time.monotonic())
        engine = self.scoring.engine
        # While requests are answered: inline, they wait for the scores that this brings.
        flush = asyncio.to_thread(engine.flush, self._config.shutdown_timeout / 2)
        flushing = asyncio.ensure_future(flush)
        await self._grpc.stop(deadline - time.monotonic())
        await self._limits.idle(deadline - time.monotonic())
        await self._http.stop(deadline - time.monotonic())
        await flushing
        if self._inline is not None:
            # Held spans of requests that were answered meanwhile leave with their scores, too.
            await asyncio.to_thread(engine.flush, (deadline - time.monotonic()) / 2)
            await self._inline.stop(deadline - time.monotonic())
        if self._kafka is not None:  # another member of the group gets the unfinished messages
            await asyncio.to_thread(self._kafka.close)
        await asyncio.to_thread(self.scoring.close, deadline)
        if self._journal is not None:
            self._journal.close()

    async def _reload(self) -> None:
        """Read replaced files again."""
        with contextlib.suppress(asyncio.CancelledError):
            while True:
                await asyncio.sleep(_RELOAD_SECONDS)
                for reload in self._reloads:
                    reload()
                if self._config_reload is not None:
                    await self._config_reload.look()
                if self._inline is not None:
                    await self._inline.forwarder.look()

    async def _use_rules(self, config: Config) -> None:
        """Switch to other rules, selecting all spans that either set of rules may sample meanwhile."""
        selector = self._selector(config)
        # A lower ceiling must wait: the old rules still sample what it would leave out.
        if config.ceiling > self._config.ceiling:
            self._tap.selector = selector
        await asyncio.to_thread(self.scoring.use_rules, config)
        self._tap.selector = selector
        self._config = config
        if self._inline is not None:
            self._inline.nested = _nested(config)

    def _selector(self, config: Config) -> Selector:
        most = self.options.max_attributes
        return Selector(self._conventions, config.ceiling, most, trust_remote=config.trust_remote)

    def _hold(self) -> HeldSpans | None:
        hold, limits = hold_seconds(self._config), self._config.limits
        if hold is None:
            return None
        if self._config.journal is None:
            _logger.warning(
                "inline without a journal: requests with judged spans wait up to %g s before they leave; "
                "configure `journal` to have them acknowledged at once",
                hold,
            )
        return HeldSpans(limits.max_held_spans, hold, limits.max_bytes)

    def _forward(self) -> Inline | None:
        options = self.options
        if options.mode == "tap" or options.forward is None:
            return None
        forwarder = Forwarder(options.forward, options.forward_headers, options.forward_timeout)
        # Held spans of an earlier process come behind its requests in the journal.
        self._tap.patience = PUT_SECONDS
        return Inline(self._tap, forwarder, self._held_spans, nested=_nested(self._config))

    # --- pages ---

    def _healthz(self) -> tuple[int, dict[str, Any]]:
        health = self.scoring.engine.health()
        status = 503 if health.status == "stalled" else 200
        return status, {"ok": health.ok, "status": health.status, "problem": health.problem}

    def _readyz(self) -> tuple[int, dict[str, Any]]:
        health = self.scoring.engine.health()
        problems = [
            health.problem if health.status == "stalled" else None,
            None if self._ready else "starting or shutting down",
            self._kafka and self._kafka.problem,
            self._inline and self._inline.forwarder.problem,
        ]
        problem = next(filter(None, problems), None)
        rules = {} if self._config_reload is None else {"configuration": self._config_reload.status()}
        status, word = (503, "not ready") if problem else (200, "ready")
        return status, {"status": word, "problem": problem, **rules}

    def _stats(self) -> tuple[int, dict[str, Any]]:
        """Return all counters as plain values, without content."""
        scoring, engine = self.scoring, self.scoring.engine
        stats, health = engine.stats(), engine.health()
        counters = {
            "time": time.time(),
            "health": health.status,
            "problem": health.problem,
            **self.traffic.snapshot(),
            "queue": engine.queue_size,
            "open_traces": scoring.gatherer.usage[0],
            "runs": {"seen": stats.seen, "eligible": stats.eligible, "ignored": stats.ignored},
            "rules": stats.rules,
            "losses": engine.losses(),
            "repeated_spans": stats.repeated,
            "destinations": engine.destination_stats(),
            **scoring.recent.snapshot(),
        }
        if self._kafka is not None:
            counters["kafka"] = self._kafka.stats()
        return 200, plain(counters)


def _nested(config: Config) -> bool:
    """Return True if agents within runs are judged by themselves."""
    return any(rule.scope == "agent" for rule in config.rules)
