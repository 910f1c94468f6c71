"""The rules of one configuration, each with the queue of its evaluations."""

from __future__ import annotations

import asyncio

from otel_evals._internal.attach.attacher import Attacher
from otel_evals._internal.config.options import Config
from otel_evals._internal.config.rules import Rule
from otel_evals._internal.engine.rule_queue import RuleQueue
from otel_evals._internal.redaction.redactor import private_context
from otel_evals._internal.sampling.decide import Decider


class Rules:
    """The rules of one configuration. A run is scored by the rules that sampled it."""

    def __init__(self, config: Config, attacher: Attacher) -> None:
        self._context = private_context(config.redact, content=config.capture_content)
        self._attacher, self._queue_size = attacher, config.limits.queue_size
        self.decider = Decider(config.rules)
        self.scopes = sorted({r.scope for r in config.rules if r.scope != "conversation"}, reverse=True)
        self.queues: dict[str, RuleQueue] = {}
        for rule in config.rules:
            self.add(rule)

    def add(self, rule: Rule) -> RuleQueue:
        queue = self._context.run(RuleQueue, rule, self._queue_size, self._attacher, self._context)
        self.queues[rule.name] = queue
        return queue

    @property
    def capacity(self) -> int:
        """Number of further runs that every rule can queue. May be read from any thread."""
        queues = tuple(self.queues.values())
        return max(0, min((queue.capacity for queue in queues), default=self._queue_size))

    async def prepare(self) -> None:
        await asyncio.gather(*(queue.prepare() for queue in self.queues.values()))
