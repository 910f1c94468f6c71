"""The service: receivers, scoring, and their beginning and end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from otel_evals import Config
from otel_evals.dialects import load_dialects
from otel_evals.errors import ConfigError
from otel_evals.sdk.pipeline import Providers
from otel_evals_gateway._internal.config_reload import Reloading
from otel_evals_gateway._internal.forwarder import Forwarder
from otel_evals_gateway._internal.held_spans import HeldSpans
from otel_evals_gateway._internal.inline import Inline
from otel_evals_gateway._internal.journal import Journal, open_journal
from otel_evals_gateway._internal.kafka_feed import consume
from otel_evals_gateway._internal.options import GatewayOptions, host_and_port
from otel_evals_gateway._internal.receiver.access import BearerTokens, tls_context
from otel_evals_gateway._internal.receiver.decoder import Signal
from otel_evals_gateway._internal.receiver.grpc_receiver import GrpcReceiver, grpc_credentials
from otel_evals_gateway._internal.receiver.http_receiver import HttpReceiver
from otel_evals_gateway._internal.receiver.request_limits import Limits, Load
from otel_evals_gateway._internal.receiver.selection import Selector
from otel_evals_gateway._internal.scoring_engine import Scoring
from otel_evals_gateway._internal.stats_report import report
from otel_evals_gateway._internal.tap import Tap
from otel_evals_gateway._internal.traffic_counters import Traffic

__all__ = ["Gateway"]

_logger = logging.getLogger(__name__)
_RELOAD_SECONDS = 1.0
_HOLD_WITHOUT_STORE = 5.0
"""Seconds that a request may wait for scores: half of what exporters wait for an answer by default."""


class Gateway:
    """Receives OTLP and scores it.

    Args:
        config: with a section `gateway`; without one, its defaults apply.
        providers: take evaluation spans, events and metrics; the global ones where they are None.
        path: the file that the configuration was read from; its rules are read again when it changes.

    Raises:
        ConfigError: a file that the configuration names cannot be used.
    """

    def __init__(self, config: Config, providers: Providers | None = None, path: Path | None = None) -> None:
        self.options = config.sections.get("gateway") or GatewayOptions()
        self._config = config
        self._ready = False
        self.ports: dict[str, int] = {}
        """Ports that are listened on, by protocol."""
        options = self.options
        self._reloads: list[Callable[[], None]] = []
        limits = Limits(
            body=options.max_body, decompressed=options.max_decompressed, seconds=options.request_timeout
        )
        self._load = Load(options.max_requests, limits)
        self._tokens = self._read_tokens()
        self._tls = self._read_tls()
        dialects = load_dialects()
        self.traffic = Traffic(self._load)
        self._held = self._hold()
        self.scoring = Scoring(config, dialects, providers or Providers(), self._held, self._count_held)
        self.traffic.observe(self.scoring.meter)
        self._journal: Journal = open_journal(config, self.scoring)
        self._dialects = dialects
        self._tap = Tap(self._selector(config), self.scoring, self.traffic, self._journal)
        self._inline = self._forward()
        takes = self._tap if self._inline is None else self._inline
        signals: tuple[Signal, ...] = (
            ("traces", "logs") if self._inline is None else ("traces", "logs", "metrics")
        )
        self._http = HttpReceiver(
            takes.take,
            signals,
            limits,
            self._load,
            self._tokens,
            {"/healthz": self._healthz, "/readyz": self._readyz, "/stats": self._stats},
        )

        self._kafka = consume(options.kafka, self._tap, self.scoring) if options.kafka else None
        self._grpc = GrpcReceiver(takes.take, signals, limits, self._load, self._tokens)

        meter = self.scoring.meter
        self._reloading = None if path is None else Reloading(path, config, self._use_rules, meter)

    def reload(self) -> None:
        """Have the configuration file read again soon."""
        if self._reloading is not None:
            self._reloading.request()

    async def serve(self, stop: asyncio.Event, started: Callable[[], object] = lambda: None) -> None:
        """Receive and score until told to stop; then answer what is in progress and score what was received.

        Args:
            stop: set to end the service.
            started: called once everything listens.

        Raises:
            ConfigError: an address cannot be used.
        """
        reloading = asyncio.ensure_future(self._reload())
        try:
            if self._inline is not None:
                self._inline.start()
            await self._journal.replay(self._inline or self._tap)
            await self._listen()
            if self._kafka is not None:
                self._kafka.start()
            self._ready = True
            started()
            await stop.wait()
        finally:
            reloading.cancel()
            await self._drain()

    async def _listen(self) -> None:
        if self.options.http is not None:
            await self._start("http", self.options.http, self._http.start, self._tls)
        if self.options.grpc is not None:
            tls = self.options.tls
            credentials = None if tls is None else grpc_credentials(tls.certificate, tls.key, tls.client_ca)
            await self._start("grpc", self.options.grpc, self._grpc.start, credentials)

    async def _start(
        self, name: str, address: str, start: Callable[[str, int, Any], Awaitable[int]], tls: Any
    ) -> None:
        host, port = host_and_port(address)
        try:
            self.ports[name] = await start(host, port, tls)
        except OSError as error:
            raise ConfigError(f"gateway.{name}", f"{address} cannot be used: {error}") from error
        _logger.info("listening for OTLP over %s on %s:%d", name, host, self.ports[name])

    async def _drain(self) -> None:
        """Refuse new requests, answer those in progress, score and deliver what can be within the time."""
        self._ready = False
        self._load.closed = True
        deadline = time.monotonic() + self._config.shutdown_timeout
        await self._http.stop_listening()
        if self._kafka is not None:
            await asyncio.to_thread(self._kafka.stop_taking, deadline - time.monotonic())
        scoring = asyncio.ensure_future(
            asyncio.to_thread(self.scoring.flush, self._config.shutdown_timeout / 2)
        )
        await self._grpc.stop(deadline - time.monotonic())
        await self._load.idle(deadline - time.monotonic())
        await self._http.stop()
        await scoring
        if self._inline is not None:
            await self._inline.stop(deadline - time.monotonic())
        await self._journal.collect()
        if self._kafka is not None:  # what is not done with comes to another member of the group
            await asyncio.to_thread(self._kafka.close)
        await asyncio.to_thread(self.scoring.close, deadline)
        self._journal.close()

    async def _reload(self) -> None:
        """Read files again that were replaced."""
        with contextlib.suppress(asyncio.CancelledError):
            while True:
                await asyncio.sleep(_RELOAD_SECONDS)
                for reload in self._reloads:
                    reload()
                if self._reloading is not None:
                    await self._reloading.look()

    async def _use_rules(self, config: Config) -> None:
        """Have other rules used.

        Whatever a rule may sample has to be selected before it is asked, and as long as it is.
        """
        selector = self._selector(config)
        if config.ceiling > self._config.ceiling:
            self._tap.use_selector(selector)
        await asyncio.to_thread(self.scoring.use_rules, config)
        self._tap.use_selector(selector)
        self._config = config
        if self._inline is not None:
            self._inline.use_rules(nested=_nested(config))

    def _selector(self, config: Config) -> Selector:
        return Selector(
            self._dialects,
            config.ceiling,
            self.options.max_attributes,
            trust_remote=config.trust_remote,
        )

    def _hold(self) -> HeldSpans | None:
        config = self._config
        if self.options.mode == "tap" or not config.holds:
            return None
        if config.store is not None:
            return HeldSpans(config.hold_limit, config.hold)
        hold = min(config.hold, _HOLD_WITHOUT_STORE)
        _logger.warning(
            "inline without a store: requests with judged spans wait up to %g s before they are forwarded; "
            "configure `store` to have them acknowledged at once",
            hold,
        )
        if self.options.quiet >= hold:
            _logger.warning("`quiet` is %g s: scores will come too late for the spans", self.options.quiet)
        return HeldSpans(config.hold_limit, hold)

    def _count_held(self) -> int:
        return len(self._held) if self._held is not None else 0

    def _forward(self) -> Inline | None:
        options = self.options
        if options.mode == "tap" or options.forward is None:
            return None
        forwarder = Forwarder(options.forward, options.forward_headers, options.forward_timeout)
        nested = _nested(self._config)
        return Inline(self._tap, forwarder, self._held, self.traffic, self._journal, nested=nested)

    def _read_tokens(self) -> BearerTokens | None:
        if self.options.tokens is None:
            return None
        tokens = BearerTokens(self.options.tokens)
        self._reloads.append(tokens.reload)
        return tokens

    def _read_tls(self) -> Any:
        if self.options.tls is None:
            return None
        tls = self.options.tls
        context, reload = tls_context(tls.certificate, tls.key, tls.client_ca)
        self._reloads.append(reload)
        return context

    # --- pages ---

    def _healthz(self) -> tuple[int, dict[str, Any]]:
        health = self.scoring.health()
        status = 200 if health.ok else 503
        return status, {"status": health.status, "problem": health.problem}

    def _readyz(self) -> tuple[int, dict[str, Any]]:
        status, word = (200, "ready") if self._ready else (503, "not ready")
        rules = {} if self._reloading is None else {"configuration": self._reloading.status()}
        return status, {"status": word, **rules}

    def _stats(self) -> tuple[int, dict[str, Any]]:
        kafka = {} if self._kafka is None else {"kafka": self._kafka.stats()}
        return 200, {**report(self.traffic, self.scoring), **kafka}


def _nested(config: Config) -> bool:
    """Whether agents in runs are judged by themselves."""
    return any(rule.scope == "agent" for rule in config.rules)
