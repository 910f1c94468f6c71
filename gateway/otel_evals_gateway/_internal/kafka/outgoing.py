"""What this member writes to topics: messages that nobody can read, and runs for other members."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

_logger = logging.getLogger(__name__)
_REASON = "otel_evals.reason"
_AGAIN = {KafkaError.MSG_SIZE_TOO_LARGE: False, KafkaError.INVALID_MSG: False, KafkaError._INVALID_ARG: False}
"""Errors after which the same message is refused again."""


class Outgoing(NamedTuple):
    """A message to write."""

    topic: str
    value: bytes | None
    key: bytes | None
    headers: list[tuple[str, bytes | None]]
    written: Callable[[str | None], object]
    """Called once it is written, with None, or cannot be, with the error."""


class Producing:
    """Writes messages until each is written or refused for good. Used on the consumer's thread."""

    def __init__(self, properties: Mapping[str, Any], logger: logging.Logger) -> None:
        self._properties = properties
        self._log = logger
        self._producer: Any = None
        self._waiting: deque[Outgoing] = deque()
        self.in_flight: Counter[str] = Counter()
        """Number of messages that are not written yet, by topic."""

    def put(self, message: Outgoing) -> None:
        self._waiting.append(message)
        self.in_flight[message.topic] += 1

    def send(self) -> None:
        """Hand over what waits, and take the brokers' answers."""
        if self._waiting and self._producer is None:
            self._producer = Producer(self._properties, logger=self._log)
        for _ in range(len(self._waiting)):
            if not self._produce(self._waiting.popleft()):
                break
        if self._producer is not None:
            self._producer.poll(0)

    def flush(self, seconds: float) -> None:
        """Wait until everything is written."""
        self.send()
        if self._producer is not None:
            self._producer.flush(seconds)

    def _produce(self, message: Outgoing) -> bool:
        """Hand over a message; returns False if the producer's queue is full."""

        def answered(error: KafkaError | None, _: Any) -> None:
            self._answered(message, error)

        try:
            self._producer.produce(
                message.topic, message.value, message.key, headers=message.headers, on_delivery=answered
            )
        except BufferError:
            self._waiting.appendleft(message)
            return False
        except KafkaException as error:
            self._answered(message, error.args[0])
        except (TypeError, ValueError) as error:  # of headers that another client could write
            self._end(message, str(error))
        return True

    def _answered(self, message: Outgoing, error: KafkaError | None) -> None:
        if error is not None and _AGAIN.get(error.code(), True):
            _logger.warning("%s cannot be written yet: %s", message.topic, error.str())
            self._waiting.append(message)
        else:
            self._end(message, None if error is None else error.str())

    def _end(self, message: Outgoing, problem: str | None) -> None:
        self.in_flight[message.topic] -= 1
        message.written(problem)


def dead_letter(topic: str, message: Any, reason: str, written: Callable[[str | None], object]) -> Outgoing:
    """Return a message with the reason why it cannot be used."""
    try:
        headers = [*(message.headers() or ())]
    except Exception:  # of names that are no text
        headers = []
    return Outgoing(topic, message.value(), message.key(), [*headers, (_REASON, reason.encode())], written)
