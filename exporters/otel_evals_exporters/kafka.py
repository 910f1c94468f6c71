"""Scored runs in a Kafka topic, one JSON object per message."""

from __future__ import annotations

import ctypes
import json
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from otel_evals.destinations import Unaccepted, run_record
from otel_evals.errors import ConfigError, DestinationError
from otel_evals.model import ScoredRun
from otel_evals.sdk.util import extra, in_thread

__all__ = ["KafkaDestination"]

_logger = logging.getLogger(__name__)
_TIMEOUT = 20.0
"""Seconds for the acknowledgement of a batch: less than the engine gives an attempt."""
_FULL = 0.1
"""Seconds to wait for capacity in librdkafka's queue."""
_PERMANENT = """
CLUSTER_AUTHORIZATION_FAILED INVALID_RECORD MSG_SIZE_TOO_LARGE SASL_AUTHENTICATION_FAILED
TOPIC_AUTHORIZATION_FAILED TOPIC_EXCEPTION _AUTHENTICATION _INVALID_ARG
"""
"""Names of errors that a repeat does not help."""


class KafkaDestination:
    """Writes scored runs to a topic, for consumers that must not lose one.

    A run counts as exported when all in-sync replicas have its message. The key, `trace id/root span id`, is
    the same for all messages of a run, which keeps them in order. A repeat has the same `evaluation_id` and
    revision in each evaluation.
    """

    name = "kafka"
    batch_size = 512
    """Scored runs that are sent and acknowledged together."""

    def __init__(
        self,
        brokers: Sequence[str],
        *,
        topic: str = "otel_evals_scores",
        content: bool = True,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Configure the producer, which connects with the first batch.

        Args:
            brokers: addresses of brokers, HOST:PORT.
            topic: the topic, which must exist unless the brokers create topics.
            content: whether to send inputs, outputs, explanations, prompts and contexts.
            properties: other properties of librdkafka, such as `security.protocol`.

        Raises:
            ConfigError: there is no broker, a property is wrong, or confluent-kafka is not installed.
        """
        if isinstance(brokers, str) or not brokers:
            raise ConfigError("brokers", 'must be a list of addresses, as in ["kafka:9092"]')
        with extra("gateway", "kafka"):
            from confluent_kafka import KafkaException, Producer
        self._topic = topic
        self._content = content
        self._properties = {
            "client.id": "otel-evals",
            "bootstrap.servers": ",".join(brokers),
            "message.timeout.ms": str(int(_TIMEOUT * 1000)),
            **(properties or {}),
            # Set last, so no property disables it: retries by librdkafka could repeat messages.
            "enable.idempotence": "true",
        }
        self._process = 0
        self._producer: Any = None
        # Only to check the properties.
        try:
            Producer(self._properties, logger=_logger)
        except KafkaException as error:
            raise ConfigError("properties", error.args[0].str()) from error

    async def export(self, batch: Sequence[ScoredRun]) -> Sequence[Unaccepted]:
        """Send a batch, and wait until the brokers have acknowledged it.

        Raises:
            DestinationError: nothing was acknowledged; `retryable` says whether to send it again.
        """
        errors = await in_thread(self._send, batch)
        if len(errors) == len(batch):
            raise errors[0]
        return [
            Unaccepted(evaluation, error)
            for number, error in errors.items()
            for evaluation in batch[number].evaluations
        ]

    async def shutdown(self) -> None:
        """Close the connections."""
        self._producer = None

    def _open(self) -> Any:
        """Return the producer of this process."""
        from confluent_kafka import Producer

        if self._producer is not None and self._process != os.getpid():
            # In a forked child its threads do not exist, and its destructor would wait for them.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._producer))
            self._producer = None
        if self._producer is None:
            self._process, self._producer = os.getpid(), Producer(self._properties, logger=_logger)
        return self._producer

    def _send(self, batch: Sequence[ScoredRun]) -> dict[int, DestinationError]:
        """Produce a batch; return the errors of runs that were not acknowledged, by position."""
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + _TIMEOUT
        producer = self._open()
        late = DestinationError("the brokers did not acknowledge in time", retryable=True, reason="timeout")
        errors = dict.fromkeys(range(len(batch)), late)

        def acknowledged(number: int, error: Any, _: Any = None) -> None:
            if error is None:
                errors.pop(number, None)
                return
            errors[number] = _failure(error)
            if error.fatal():
                self._producer = None  # librdkafka ends it; the next attempt opens another

        for number, scored in enumerate(batch):
            key = f"{scored.run.trace_id}/{scored.run.root_span_id}"
            record = run_record(scored, content=self._content)
            text = json.dumps(record, ensure_ascii=False, allow_nan=False)
            value = text.encode("utf-8", "replace")  # a lone surrogate, which broken input may contain
            try:
                self._produce(producer, value, key, partial(acknowledged, number), deadline)
            except KafkaException as error:
                acknowledged(number, error.args[0])
        producer.flush(max(0.0, deadline - time.monotonic()))
        return errors

    def _produce(
        self, producer: Any, value: bytes, key: str, acknowledged: Callable[..., None], deadline: float
    ) -> None:
        """Queue one message; wait while librdkafka's queue is full."""
        while time.monotonic() < deadline:
            try:
                producer.produce(self._topic, value, key, on_delivery=acknowledged)
                return
            except BufferError:
                producer.poll(_FULL)


def _failure(error: Any) -> DestinationError:
    name = error.name()
    reason = name.strip("_").lower()
    return DestinationError(error.str(), retryable=name not in _PERMANENT.split(), reason=reason)
