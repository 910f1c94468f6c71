"""What users' code raised is logged as far as it can and may be told; telling it raises nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import pytest

from otel_evals._internal.util.error_log import log_error, show_content

LOGGER = logging.getLogger("tests.error_log")


@pytest.fixture(autouse=True)
def shown() -> Iterator[None]:
    yield
    show_content(True)


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def deep() -> BaseException:
    error = ValueError("last")
    for _ in range(50_000):
        above = ValueError("above")
        above.__cause__, error = error, above
    return error


class Mute(Exception):
    def __getattribute__(self, name: str) -> object:
        raise SystemExit


class Classless(Exception):
    @property  # type: ignore[misc]
    def __class__(self) -> object:
        raise SystemExit


def test_an_exception_is_told_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    log_error(LOGGER, "%s failed", "a", error=raised(ValueError("why")), level=logging.WARNING)
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.WARNING, "a failed")
    assert "ValueError: why" in caplog.text
    assert record.filename == Path(__file__).name


def test_without_content_only_its_type_is_told(caplog: pytest.LogCaptureFixture) -> None:
    show_content(False)
    log_error(LOGGER, "%s failed", "a", error=raised(ValueError("what was said")))
    assert caplog.records[0].getMessage() == "a failed (ValueError)"
    assert "what was said" not in caplog.text


@pytest.mark.parametrize("make", [Mute, Classless, deep])
def test_an_exception_that_no_traceback_can_be_made_of_is_told_by_its_type(
    make: Callable[[], BaseException],
) -> None:
    written = StringIO()
    handler = logging.StreamHandler(written)
    LOGGER.addHandler(handler)
    try:
        log_error(LOGGER, "it failed", error=make())
    finally:
        LOGGER.removeHandler(handler)
    assert "it failed" in written.getvalue()


@pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt, RecursionError])
def test_a_handler_that_raises_costs_the_line_only(kind: type[BaseException]) -> None:
    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise kind

    handler = Handler()
    LOGGER.addHandler(handler)
    try:
        log_error(LOGGER, "it failed", error=ValueError("why"))
    finally:
        LOGGER.removeHandler(handler)
