"""Signal handlers and asynchronous exceptions on the application's threads: nothing waits for ever.

A handler runs between two instructions of the main thread, and may interrupt any of our functions there. An
asynchronous exception, such as a KeyboardInterrupt or Celery's soft time limit, may end any of them.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support.programs import run_program

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")

PREPARE = """
import ctypes, faulthandler, random, signal, threading, time
from collections import deque
faulthandler.dump_traceback_later(40, exit=True)
import otel_evals
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from tests.support.traffic import agent_run

class Kept(SpanExporter):
    def __init__(self):
        self.spans = deque(maxlen=2000)
    def export(self, spans):
        self.spans.extend(spans)
        return SpanExportResult.SUCCESS

@otel_evals.scorer
async def quick(run) -> float:
    return 0.5

exporter = Kept()
provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(SimpleSpanProcessor(exporter))
pipeline = otel_evals.configure(rules=[quick], tracer_provider=provider, destinations=[], hold=5)
tracer = provider.get_tracer("app")
agent_run(tracer)
assert otel_evals.force_flush(20_000)

def interrupted_by(work, main, seconds=2.0):
    handled = 0
    def handle(*_):
        nonlocal handled
        handled += 1
        work()
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0002, 0.002))
    signal.signal(signal.SIGALRM, handle)
    until = time.monotonic() + seconds
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    while time.monotonic() < until:
        main()
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    assert handled > 100, handled

def still_scores():
    otel_evals.force_flush(20_000)
    exporter.spans.clear()
    trace = agent_run(tracer)
    assert otel_evals.force_flush(20_000)
    found = [s.attributes.get("otel_evals.score.quick") for s in exporter.spans
             if s.context.trace_id == trace and s.parent is None]
    assert found == [0.5], found
    assert otel_evals.health().ok, otel_evals.health()
    assert otel_evals.stats().check() == []
"""

READS = """
def look():
    assert otel_evals.stats().check() == []
    otel_evals.health()
    pipeline.destination_stats()

def traffic():
    while not ended.is_set():
        agent_run(tracer)

ended = threading.Event()
thread = threading.Thread(target=traffic)
thread.start()
interrupted_by(look, look)
ended.set()
thread.join()
still_scores()
"""

SPANS = """
interrupted_by(lambda: agent_run(tracer), lambda: agent_run(tracer))
still_scores()
"""

REFUSED = """
pipeline.engine.thread.backlog.capacity = pipeline.engine.thread.backlog.free = 1  # most items are refused
interrupted_by(lambda: agent_run(tracer), lambda: agent_run(tracer))
pipeline.engine.thread.backlog.capacity = 50_000
still_scores()
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
until = time.monotonic() + 3
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
assert interrupted > 500
still_scores()
otel_evals.shutdown()
"""


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(READS, id="counters-are-read"),
        pytest.param(SPANS, id="spans-end"),
    ],
)
def test_a_signal_handler_may_interrupt_what_it_calls_itself(program: str, tmp_path: Path) -> None:
    run_program(PREPARE + program, tmp_path)


def test_an_asynchronous_exception_leaves_nothing_locked(tmp_path: Path) -> None:
    run_program(PREPARE + EXCEPTIONS, tmp_path)
