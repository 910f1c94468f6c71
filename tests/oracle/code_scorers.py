"""From a recorded case to our code-only scorer with the same options."""

from __future__ import annotations

from collections.abc import Callable

from otel_evals.scorer import Scorer
from tests.oracle.cases import Case

BUILD: dict[str, Callable[[Case], Scorer]] = {}
