"""Passes the runs of conversations on through a topic that is keyed by conversation.

Traces are keyed by trace id, so the runs of a conversation reach several members of the group. Each member
writes finished runs to this topic, and one member reads all runs of a conversation. A run's own offset is
committed once the run is in the topic, and its offset there once its conversation is scored.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from otel_evals.sdk.pipeline import PassedRun, decode_run
from otel_evals_gateway._internal.kafka.offsets import Offsets, Partition
from otel_evals_gateway._internal.scoring_engine import ScoringEngine

_logger = logging.getLogger(__name__)
_AT_ONCE = 50
"""Runs that the engine takes in one step."""
_TAKE_SECONDS = 5.0


class ConversationTopic:
    """Used on the consumer's thread."""

    def __init__(self, name: str | None, scoring: ScoringEngine) -> None:
        self.name = name
        self._scoring = scoring
        self._read: list[PassedRun] = []

    def take(self, message: Any, place: Partition, offsets: Offsets, *, read_before: bool) -> str:
        """Read a message; return its conversation. ValueError if it is not a run."""
        key = message.key()
        conversation = key.decode() if isinstance(key, bytes) else str(key)
        judged = offsets.judged(place, message.offset(), conversation)
        value = message.value() or b""
        self._read.append(decode_run(value, conversation, place, judged=judged, read_before=read_before))
        return conversation

    def put(self) -> bool:
        """Give the runs that were read to the engine; returns False if it did not take all of them yet."""
        while self._read:
            if not self._scoring.engine.receive(self._read[:_AT_ONCE], _TAKE_SECONDS):
                return False
            del self._read[:_AT_ONCE]
        return True

    def forget(self, places: Collection[Partition]) -> None:
        """Forget the conversations of partitions that another member reads now."""
        if self.name is None:  # a rebalance should not wait for the engine
            return
        self._read = [run for run in self._read if run.source not in places]
        self._scoring.engine.forget_conversations(places, _TAKE_SECONDS)

    def send(self, producer: Any) -> None:
        """Write the runs that the engine passes on."""
        outbox = self._scoring.outbox
        for _ in range(len(outbox)):
            run = outbox.popleft()
            try:
                producer.produce(self.name, run.message, run.conversation, on_delivery=self._answer(run))
            except BufferError:
                outbox.appendleft(run)
                return
            except KafkaException as error:
                self._answer(run)(error.args[0], None)

    def _answer(self, run: Any) -> Any:
        def answered(error: KafkaError | None, _: Any) -> None:
            if error is None:
                self._scoring.sent(run.trace_id)
            elif error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                self._scoring.sent(run.trace_id, "too_large_to_pass_on")
            else:
                _logger.warning("a run could not be written to %s yet: %s", self.name, error.str())
                self._scoring.outbox.append(run)

        return answered
