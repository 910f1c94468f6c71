"""The configuration: checks that need no connection, and reloads on SIGHUP and when the file has changed.

Only the rules change while the gateway runs. Other changes take effect at the next start, and are listed
until then. A file with mistakes changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.metrics import Meter

from otel_evals import Config, Rule, load_config
from otel_evals.errors import ConfigError
from otel_evals.sdk.config import YamlFile
from otel_evals_gateway._internal.options import (
    GatewayOptions,
    host_and_port,
    options_of,
    quiet_seconds,
)
from otel_evals_gateway._internal.receiver.access import BearerTokens, FileWatch, tls_context

_logger = logging.getLogger(__name__)


def check(config: Config) -> None:
    """Raise ConfigError for files that cannot be used, and for options that do not work together."""
    options = options_of(config)
    if options.tokens is not None:
        BearerTokens(options.tokens)
    if options.tls is not None:
        tls_context(options.tls)
    if options.mode == "inline":
        _check_forward(options)
        quiet_seconds(config)
    if options.kafka is None:
        return
    if config.journal is not None:
        problem = (
            "cannot be combined with `gateway.kafka`, whose topics keep unfinished messages; fix: "
            "leave it out, or receive requests with another gateway"
        )
        raise ConfigError("journal", problem)
    if any(rule.scope == "conversation" for rule in config.rules):
        problem = (
            "rules of scope conversation cannot be combined with `gateway.kafka`: traces are spread over the "
            "group, so each member would score a part of a conversation; fix: score them in process, or send "
            "their traces to one gateway over OTLP"
        )
        raise ConfigError("rules", problem)


def _check_forward(options: GatewayOptions) -> None:
    forward = urlsplit(options.forward or "")
    port = forward.port or (443 if forward.scheme == "https" else 80)
    for address in filter(None, (options.http, options.grpc)):
        host, own_port = host_and_port(address)
        if port == own_port and _named(forward.hostname or "") == _named(host):
            raise ConfigError("gateway.forward", f"{options.forward} is the gateway itself, at {address}")


def _named(host: str) -> str:
    """Return one name for all that stand for this machine."""
    return "localhost" if host in ("127.0.0.1", "::1", "0.0.0.0", "::", socket.gethostname()) else host


class ConfigReload:
    """The configuration file of a running gateway. `use` switches to the rules of a configuration."""

    def __init__(
        self, path: Path, config: Config, use: Callable[[Config], Awaitable[None]], meter: Meter
    ) -> None:
        self._path = path
        self._config = config
        self._use = use
        self._watch = FileWatch(path)
        self._values: Mapping[str, Any] = YamlFile(path).values or {}
        self._wanted = self._changing = False
        self._since = _now()
        self._counts = {"applied": 0, "refused": 0}
        self._last = "applied"
        self._needs_restart: list[str] = []
        self._metric = meter.create_counter(
            "otel_evals.gateway.reloads", "{reload}", "Reloads of the configuration, by outcome"
        )

    def request(self) -> None:
        self._wanted = True

    async def look(self) -> None:
        """Read the file if that was requested, or if it changed before the last look and not since."""
        changed = self._watch.changed()
        # An editor may write a file in several steps: it is read once it stays the same.
        settled, self._changing = self._changing and not changed, changed
        if self._wanted or settled:
            self._wanted = False
            await self._reload()

    def status(self) -> dict[str, Any]:
        """Return the start time of the current rules and the outcomes of reloads, without file content."""
        return {
            "since": self._since,
            "reloads": dict(self._counts),
            "last_reload": self._last,
            "needs_restart": self._needs_restart,
        }

    async def _reload(self) -> None:
        try:
            config, values = await asyncio.to_thread(self._read)
            await self._use(config)
        except Exception as error:
            found = error.errors if isinstance(error, ConfigError) else ()
            mistakes = "".join(f"\n  {each}" for each in found)
            message = "%s was refused; the current rules stay active:%s"
            _logger.error(message, self._path, mistakes, exc_info=None if found else error)
            return self._count("refused")
        names = {*self._values, *values} - {"rules"}
        self._needs_restart = sorted(n for n in names if self._values.get(n) != values.get(n))
        self._config, self._values = config, {**self._values, "rules": values["rules"]}
        self._since = _now()
        _logger.info("reloaded %s: %d rules are active", self._path, len(config.rules))
        if self._needs_restart:
            _logger.warning("these changes take effect at the next start: %s", ", ".join(self._needs_restart))
        return self._count("applied")

    def _read(self) -> tuple[Config, Mapping[str, Any]]:
        """Return the configuration with the file's rules, and the file's values.

        An unchanged rule stays the same object, with its judge's budget and cache.
        """
        loaded = load_config(self._path)
        values: Mapping[str, Any] = YamlFile(self._path).values or {}
        known = list(zip(self._values.get("rules", ()), self._config.rules, strict=True))
        # By value: a rule may have moved to another place in the file.
        rules = [_same(each, rule, known) for each, rule in zip(values["rules"], loaded.rules, strict=True)]
        config = replace(self._config, rules=tuple(rules))
        if _conversation_rules(config) != _conversation_rules(self._config):
            problem = "rules of scope conversation must keep their number, ids and `idle` until a restart"
            raise ConfigError("rules", problem)
        return config, values

    def _count(self, outcome: str) -> None:
        self._last = outcome
        self._counts[outcome] += 1
        self._metric.add(1, {"outcome": outcome})


def _same(value: Any, rule: Rule, known: list[tuple[Any, Rule]]) -> Rule:
    for index, (before, earlier) in enumerate(known):
        if before == value:
            # Each earlier rule serves once: two equal rules stay two objects.
            del known[index]
            return earlier
    return rule


def _conversation_rules(config: Config) -> set[tuple[str, str]]:
    return {(rule.name, rule.group) for rule in config.rules if rule.scope == "conversation"}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
