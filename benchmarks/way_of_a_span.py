"""The way of a span through the code: its hops from file to file, from `on_end` to the exported span.

Traces every call of one scored run at run time, on all threads, and counts those that lead from one of our
files into another. A way that goes straight from stage to stage has few; one on which lower stages call up,
or on which one decision is spread over files, has many.

python benchmarks/way_of_a_span.py [--journal] [--list]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections import Counter
from inspect import CO_COROUTINE
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

import otel_evals
from otel_evals import Run, scorer

ROOT = Path(otel_evals.__file__).resolve().parents[1]
OURS = tuple(str(ROOT / folder) for folder in ("otel_evals", "instrumentation", "exporters"))


class Hops:
    """Notes each call from one of our files into another, on every thread."""

    def __init__(self) -> None:
        self.on = False
        self.hops: list[tuple[str, str, str]] = []
        """Thread, file and function that was entered."""
        self._files: dict[CodeType, str] = {}
        self._entered: set[FrameType] = set()

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        """Count one call; called by `sys.setprofile`."""
        if not self.on or event != "call" or not (file := self._file(frame.f_code)):
            return
        if frame.f_code.co_flags & CO_COROUTINE:
            if frame in self._entered:
                return  # a coroutine that goes on, which is no call
            self._entered.add(frame)
        if self._caller(frame) != file:
            self.hops.append((threading.current_thread().name, file, frame.f_code.co_qualname))

    def _caller(self, frame: FrameType) -> str:
        """Our file that the call came from, other people's code in between passed over."""
        back = frame.f_back
        while back is not None and not self._file(back.f_code):
            back = back.f_back
        return "" if back is None else self._file(back.f_code)

    def _file(self, code: CodeType) -> str:
        file = self._files.get(code)
        if file is None:
            path = code.co_filename
            file = str(Path(path).relative_to(ROOT)) if path.startswith(OURS) else ""
            self._files[code] = file
        return file


class Backend(SpanExporter):
    """Says when the judged span arrives with its score."""

    def __init__(self) -> None:
        self.arrived = threading.Event()

    def export(self, spans: Any) -> SpanExportResult:
        """Look for the score."""
        if any(key.startswith("otel_evals.score.") for span in spans for key in span.attributes or {}):
            self.arrived.set()
        return SpanExportResult.SUCCESS


@scorer
def answered(run: Run) -> bool:
    """Return True if there is an answer."""
    return bool(run.output)


def main() -> int:
    """Trace one run, after another one has loaded and warmed everything."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--journal", action="store_true", help="with a journal, which sees every run as well")
    parser.add_argument("--list", action="store_true", help="print each hop")
    options = parser.parse_args()
    hops, backend, provider = Hops(), Backend(), TracerProvider()
    threading.setprofile(hops.profile)
    with tempfile.TemporaryDirectory() as folder:
        journal = {"journal": Path(folder) / "journal"} if options.journal else {}
        scoring = otel_evals.configure(rules=[answered], tracer_provider=provider, grace=0.05, **journal)
        provider.add_span_processor(SimpleSpanProcessor(scoring.hold(backend)))
        tracer = provider.get_tracer("app")
        for traced in (False, True):
            backend.arrived.clear()
            ended = one_span(tracer)
            sys.setprofile(hops.profile)
            hops.on = traced
            provider._active_span_processor.on_end(ended)
            sys.setprofile(None)
            if not backend.arrived.wait(10):
                print("the judged span never came", file=sys.stderr)
                return 1
            time.sleep(0.3)  # what follows the export belongs to the way as well
            hops.on = False
        otel_evals.shutdown()
    report(hops.hops, everything=options.list)
    return 0


def one_span(tracer: Any) -> ReadableSpan:
    """An agent with its question and its answer, ended where no processor sees it."""
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "support",
        "gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "Where?"}]}]',
        "gen_ai.output.messages": '[{"role": "assistant", "parts": [{"type": "text", "content": "Here."}]}]',
    }
    span = tracer.start_span("invoke_agent support", attributes=attributes)
    processor, span._span_processor = span._span_processor, type(span._span_processor)()
    span.end()
    span._span_processor = processor
    return span._readable_span()


def report(hops: list[tuple[str, str, str]], *, everything: bool) -> None:
    """Print the counts."""
    if everything:
        for thread, file, function in hops:
            print(f"{thread:20} {file:55} {function}")
    by_file = Counter(file for _, file, _ in hops)
    for file, count in by_file.most_common(None if everything else 12):
        print(f"{count:5} {file}")
    print(f"{len(hops)} hops between {len(by_file)} files")


if __name__ == "__main__":
    sys.exit(main())
