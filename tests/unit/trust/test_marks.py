"""The mark of evaluations, as other processes see it: signed, or not believed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from opentelemetry.context import Context
from opentelemetry.trace import SpanContext, TraceFlags, TraceState

from otel_evals import semconv
from otel_evals._internal.trust import keys
from otel_evals._internal.trust.keys import TRUST_KEY, signature
from otel_evals._internal.trust.marks import (
    is_marked,
    marked_state,
    marking,
    state_marking,
)
from tests.support.waits import SECONDS


def of_another_process(**environment: str) -> str:
    """What a process with this environment writes as the mark's value."""
    inherited = {name: value for name, value in os.environ.items() if name != TRUST_KEY}
    done = subprocess.run(
        [sys.executable, "-c", "from otel_evals._internal.trust.keys import signature; print(signature())"],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    return done.stdout.strip()


def test_processes_of_one_machine_know_each_other_and_a_key_makes_a_deployment_of_any() -> None:
    assert of_another_process() == of_another_process() != signature()
    here = of_another_process(**{TRUST_KEY: os.environ[TRUST_KEY]})
    assert state_marking(f"otel_evals={here}") == "signed"
    one, same, other = (of_another_process(**{TRUST_KEY: key}) for key in ("k1", "k1", "k2"))
    assert one == same != other
    assert state_marking(f"otel_evals={one}") == "unsigned"


def test_a_signature_holds_for_an_hour_or_two(monkeypatch: pytest.MonkeyPatch) -> None:
    state, now = f"vendor=1, otel_evals={signature()} ,x=y", keys.time.time()
    for hours, wanted in ((-2, "unsigned"), (-1, "signed"), (0, "signed"), (1, "signed"), (2, "unsigned")):
        monkeypatch.setattr(keys.time, "time", lambda hours=hours: now + hours * 3600)
        assert state_marking(state) == wanted, hours


def test_a_forged_mark_is_replaced_by_ours_and_never_kept() -> None:
    state = marked_state(TraceState([("otel_evals", "1"), ("vendor", "x")]))
    assert dict(state) == {"otel_evals": signature(), "vendor": "x"}
    remote = SpanContext(1, 2, is_remote=True, trace_flags=TraceFlags(1), trace_state=state)
    assert marking(Context(), remote) == "signed"
    assert is_marked(Context(), remote)
    assert semconv.MARK_IN_TRACE_STATE in state
