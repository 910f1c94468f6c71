"""In the scoring process: whatever a scorer raises becomes a value that any process can read."""

from __future__ import annotations

import pickle

import pytest

from otel_evals._internal.engine.isolated_worker import Raised, raised
from otel_evals._internal.scoring.scorer import StepFailure
from otel_evals.errors import JudgeUnavailableError
from otel_evals.model import StepRecord

STEPS = (StepRecord(name="preprocess", result=["$12"]), StepRecord(name="analyze", error="no"))


def failed(cause: BaseException) -> BaseException:
    """A step's failure, as raising it makes it."""
    failure = StepFailure("analyze failed", steps=STEPS)
    failure.__cause__ = cause
    return failure


class Local(Exception):
    """A class that another process need not have."""


@pytest.mark.parametrize(
    ("error", "value"),
    [
        (KeyError("x"), Raised("KeyError", "'x'")),
        (Local("odd"), Raised("Local", "odd")),
        (SystemExit(3), Raised("SystemExit", "3")),
        (
            JudgeUnavailableError("429", retry_after=7.0),
            Raised("JudgeUnavailableError", "429", unavailable=True, retry_after=7.0),
        ),
        (failed(ValueError("bad reply")), Raised("ValueError", "bad reply", STEPS)),
        (
            failed(JudgeUnavailableError("503")),
            Raised("JudgeUnavailableError", "503", STEPS, unavailable=True),
        ),
    ],
)
def test_an_exception_goes_as_a_value(error: BaseException, value: Raised) -> None:
    assert raised(error) == value
    assert pickle.loads(pickle.dumps(raised(error))) == value
