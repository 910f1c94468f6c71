"""A signal handler interrupts the main thread anywhere, also inside this library, and never waits for it.

An asynchronous exception, such as Celery's soft time limit, may end any of our functions there.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support import PYTHONPATH
from tests.support.waits import SECONDS

PREPARE = """
import ctypes, faulthandler, random, signal, sys, threading, time
from collections import deque
faulthandler.dump_traceback_later(60, exit=True)
import otel_evals
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from otel_evals import scorer
from tests.support.agents import agent_run

class Kept(SpanExporter):  # without a lock, which an interrupted frame would hold
    def __init__(self):
        self.spans = deque(maxlen=2000)
    def export(self, spans):
        self.spans.extend(spans)
        return SpanExportResult.SUCCESS

@scorer(version="1")
async def judge(run) -> float:
    return 1.0

exporter, provider = Kept(), TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(SimpleSpanProcessor(exporter))
tracer = provider.get_tracer("app")
otel_evals.configure(rules=[judge], tracer_provider=provider, destinations=[], hold=5, limits=LIMITS)
agent_run(tracer)
assert otel_evals.force_flush(20_000)

def still_scores():
    otel_evals.force_flush(20_000)
    exporter.spans.clear()
    trace = agent_run(tracer)
    assert otel_evals.force_flush(20_000)
    found = [s.attributes.get("otel_evals.score.judge") for s in exporter.spans
             if s.context.trace_id == trace and s.parent is None]
    assert found == [1.0], found
    assert otel_evals.health().ok, otel_evals.health()
    assert otel_evals.stats().check() == []
"""

HANDLER = """
handled = 0

def handle(number, frame):
    global handled
    handled += 1
    otel_evals.stats().check() == [] or sys.exit("the counters do not balance")
    otel_evals.health()
    if handled % 10 == 0:
        agent_run(tracer)

signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
until = time.monotonic() + 2
while time.monotonic() < until:
    agent_run(tracer)
    otel_evals.stats()
    otel_evals.health()
    otel_evals.check_sync(judge, "An answer.", deadline=0.001)
signal.setitimer(signal.ITIMER_REAL, 0)
still_scores()
otel_evals.shutdown()
print(handled)
"""

EXCEPTIONS = """
class Interrupted(BaseException):
    pass

def work():
    while not ended.is_set():
        try:
            while not ended.is_set():
                agent_run(tracer)
                otel_evals.stats()
                otel_evals.health()
                otel_evals.force_flush(1)
        except Interrupted:
            pass

ended = threading.Event()
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
until = time.monotonic() + 2
interrupted = 0
while time.monotonic() < until:
    for thread in threads:
        ident, raised = ctypes.c_ulong(thread.ident), ctypes.py_object(Interrupted)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, raised)
        interrupted += 1
    time.sleep(random.uniform(0, 0.002))
ended.set()
for thread in threads:
    thread.join(20)
    assert not thread.is_alive()
still_scores()
otel_evals.shutdown()
print(interrupted)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs signals of POSIX")
@pytest.mark.parametrize(
    ("program", "limits"),
    [(HANDLER, '{"queue_size": 1}'), (EXCEPTIONS, "{}")],
    ids=["a signal handler", "asynchronous exceptions"],
)
def test_counters_are_read_and_spans_end_where_anything_may_be_interrupted(program: str, limits: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PREPARE.replace("LIMITS", limits) + program],
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2_000:]
    assert "Traceback" not in ended.stderr, ended.stderr[-2_000:]
    assert int(ended.stdout) > 100
