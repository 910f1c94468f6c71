"""A scrape that arrives while scoring is being configured."""

from __future__ import annotations

from typing import Any

from opentelemetry.metrics import CallbackOptions, NoOpMeter, NoOpMeterProvider

from otel_evals import Config, Rule, Run, scorer
from otel_evals._internal.live.pipeline import Pipeline


@scorer(inline=True)
def passes(run: Run) -> bool:
    """Whether the answer is right."""
    return True


class ReadingAtOnce(NoOpMeterProvider):
    """Reads each observable instrument as soon as it is created."""

    def __init__(self) -> None:
        self.read: list[object] = []

    def get_meter(self, name: str, *args: Any, **options: Any) -> NoOpMeter:
        provider = self

        class Meter(NoOpMeter):
            def create_observable_counter(self, name: str, callbacks: Any = None, **_: Any) -> Any:
                for each in callbacks or ():
                    provider.read += each(CallbackOptions())

            create_observable_gauge = create_observable_counter  # type: ignore[assignment]

        return Meter(name)


def test_instruments_can_be_read_while_the_pipeline_is_being_built() -> None:
    meters = ReadingAtOnce()
    pipeline = Pipeline(Config(rules=[Rule(passes)]), meter_provider=meters)
    pipeline.shutdown()
    assert meters.read
