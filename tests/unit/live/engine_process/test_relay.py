"""The relay in the engine's process: outcomes leave in order, with the counts of that moment."""

from __future__ import annotations

import asyncio
import pickle

from otel_evals import Stats
from otel_evals._internal.attach.attacher import Attacher
from otel_evals._internal.live.engine_process.relay import Attached, Counts, Relay, Released, Report
from otel_evals.model import Operation, OperationKind, SpanRecord
from tests.support.replacing import replace
from tests.support.scored import OUTCOMES, SPAN, TRACE, evaluation, scored_run

SECRET = "order 1042"
SCORED = evaluation("keyword_coverage", OUTCOMES["keyword_coverage"])
RUN = scored_run().run


class Sent:
    """A relay, and the reports that it sent."""

    def __init__(self, *, releases: bool = True) -> None:
        self.reports: list[Report] = []
        self.seen = 0
        self._came = asyncio.Event()
        self.relay = Relay(self._counts, self._send, releases=releases)

    def _counts(self) -> Counts:
        return Counts(
            stats=Stats(seen=self.seen, eligible=self.seen), destinations={}, received=0, open=0, pending=0
        )

    def _send(self, report: Report) -> None:
        self.reports.append(report)
        self._came.set()

    async def came(self) -> Report:
        async with asyncio.timeout(5):
            await self._came.wait()
        return self.reports[-1]


def test_what_comes_within_a_moment_leaves_in_one_report_in_order() -> None:
    async def body() -> None:
        sent = Sent()
        opened = Attacher(None, None, None, None).open(RUN, SPAN, "x", "x", 0)
        sent.relay.attach(RUN, SCORED, opened)
        sent.relay.attach(RUN, SCORED, None)
        sent.relay.release(TRACE, SPAN)
        sent.seen = 7
        report = await sent.came()
        first, second, third = report.items
        assert isinstance(first, Attached)
        assert isinstance(second, Attached)
        assert (first.evaluation, first.began, second.began) == (SCORED, True, False)
        assert third == Released(TRACE, SPAN)
        assert report.counts.stats.seen == 7, "the counts of the moment it is sent"
        assert len(sent.reports) == 1

    asyncio.run(body())


def test_a_flush_sends_at_once_and_nothing_twice() -> None:
    async def body() -> None:
        sent = Sent()
        sent.relay.flush()
        sent.relay.flush()
        assert len(sent.reports) == 1, "the counts were not known before"
        sent.seen = 1
        sent.relay.flush()
        assert [report.items for report in sent.reports] == [(), ()]
        sent.relay.attach(RUN, SCORED, None)
        sent.relay.flush()
        await asyncio.sleep(0.03)
        assert [len(report.items) for report in sent.reports] == [0, 0, 1]

    asyncio.run(body())


def test_spans_are_let_go_only_where_somebody_holds_them() -> None:
    async def body() -> None:
        records = [SpanRecord(trace_id=TRACE, span_id=f"{n:016x}") for n in (1, 2, 3)]
        sent = Sent()
        sent.relay.release_all([r for r in records if r.span_id != f"{2:016x}"])
        sent.relay.flush()
        assert sent.reports[0].items == (Released(TRACE, f"{1:016x}"), Released(TRACE, f"{3:016x}"))
        nobody = Sent(releases=False)
        nobody.relay.release_all(records)
        nobody.relay.release(TRACE, SPAN)
        nobody.relay.flush()
        assert nobody.reports[0].items == ()

    asyncio.run(body())


def test_a_run_goes_without_its_content_and_with_all_that_attaching_reads() -> None:
    async def body() -> None:
        span = SpanRecord(trace_id=TRACE, span_id=SPAN, attributes={"x": SECRET})
        judged = Operation(span=span, kind=OperationKind.INFERENCE, dialect="d", response_id="r-1")
        turn = replace(RUN, operations=(judged,), output=SECRET, conversation_id="c", trace_state="ot=th:8")
        sent = Sent()
        sent.relay.attach(replace(turn, turns=(turn,)), SCORED, None)
        sent.relay.flush()
        (item,) = sent.reports[0].items
        assert isinstance(item, Attached)
        slim = item.run
        assert SECRET not in repr(slim)
        for name in (
            "trace_id",
            "root_span_id",
            "agent_name",
            "conversation_id",
            "models",
            "trace_flags",
            "trace_state",
        ):
            assert getattr(slim, name) == getattr(turn, name), name
        assert [(o.span.span_id, o.response_id) for o in slim.operations] == [(SPAN, "r-1")]
        assert [each.trace_id for each in slim.turns] == [TRACE]
        assert pickle.loads(pickle.dumps(sent.reports[0])) == sent.reports[0]

    asyncio.run(body())
