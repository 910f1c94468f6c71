"""Passes the runs of conversations on through a topic that is keyed by conversation.

Traces are keyed by trace id, so the runs of a conversation reach several members of the group. Each member
writes finished runs to this topic, and one member reads all runs of a conversation. A run's own offset is
committed once the run is in the topic, and its offset there once its conversation is scored. A new owner of a
partition reads `conversation_keep` back, for conversations that continue.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from otel_evals.model import Run
from otel_evals.sdk.pipeline import decode_run
from otel_evals_gateway._internal.kafka.progress import Partition
from otel_evals_gateway._internal.scoring_engine import ScoringEngine

_logger = logging.getLogger(__name__)
PASSED = "passed on: "
"""Before the id of a trace: its run in this topic is unfinished for longer than its spans in another."""
_AT_ONCE = 50
"""Runs that the engine takes in one step."""
_TAKE_SECONDS = 5.0


class ConversationTopic:
    """The runs that are read from the topic. Used on the consumer's thread.

    Args:
        name: the topic's name; None if runs are not passed on.
        scoring: gathers the conversations.
    """

    def __init__(self, name: str | None, scoring: ScoringEngine) -> None:
        self.name = name
        self._scoring = scoring
        self._most_bytes = scoring.config.limits.max_bytes
        self._before: dict[tuple[Partition, bytes], list[bytes]] = {}
        """Runs that were scored with their conversations before this member read them, by message key."""
        self._bytes = 0
        self._read: list[tuple[Partition, Run]] = []
        """Runs that the engine has not taken."""

    def remember(self, message: Any, place: Partition) -> None:
        """Keep a run in case its conversation continues."""
        key, value = (place, message.key() or b""), message.value() or b""
        runs = self._before.pop(key, [])
        self._before[key] = [*runs, value]
        self._bytes += len(value)
        while self._bytes > self._most_bytes:
            self._take_before(next(iter(self._before)))

    def _take_before(self, key: tuple[Partition, bytes]) -> list[bytes]:
        runs = self._before.pop(key, [])
        self._bytes -= sum(map(len, runs))
        return runs

    def take(self, message: Any, place: Partition) -> Collection[str]:
        """Read a new run; returns names of its traces here. ValueError if the message is no run."""
        run = decode_run(message.value() or b"", self._scoring.conventions)
        # Before the new one: a conversation is scored in the order of its runs.
        for earlier in self._take_before((place, message.key() or b"")):
            try:
                self._read.append((place, decode_run(earlier, self._scoring.conventions)))
            except ValueError:
                _logger.debug("an earlier message of a conversation is no run", exc_info=True)
        self._read.append((place, run))
        return _names(run)

    def put(self) -> Iterator[tuple[Collection[str], float]]:
        """Give the engine the runs that were read; yields the traces of each that it took, and when."""
        engine = self._scoring.engine
        while self._read:
            some = self._read[:_AT_ONCE]

            async def take(some: Sequence[tuple[Partition, Run]] = some) -> float:
                when = time.monotonic()
                for place, run in some:
                    engine.take_conversation_run(run, place)
                return when

            # None if the engine is busy: the runs stay here for the next call.
            when = engine.run(take, _TAKE_SECONDS)
            if when is None:
                return
            del self._read[: len(some)]
            for _, run in some:
                yield _names(run), when

    def forget(self, places: Collection[Partition]) -> None:
        """Forget the conversations of partitions that another member reads now."""
        if self.name is None:  # a rebalance should not wait for the engine
            return
        self._read = [(place, run) for place, run in self._read if place not in places]
        for key in [key for key in self._before if key[0] in places]:
            self._take_before(key)
        engine = self._scoring.engine

        async def forget() -> None:
            engine.forget_conversations(lambda conversation: conversation.source in places)

        engine.run(forget, _TAKE_SECONDS)


def _names(run: Run) -> list[str]:
    return [PASSED + trace_id for trace_id in run.trace_ids or (run.trace_id,)]
