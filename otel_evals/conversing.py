"""Rules of scope `conversation`: they are asked about all runs of a conversation when it has fallen idle.

Lives on the engine's thread only, as judging does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from otel_evals.assembly.conversation import as_conversation, conversation_key
from otel_evals.config import Config
from otel_evals.conversations import Conversation, Conversations
from otel_evals.engine import Accounts, Stories
from otel_evals.engine.stories import Entry
from otel_evals.judging import Judging, rule_names
from otel_evals.model import Run
from otel_evals.sampling import picks
from otel_evals.sampling.identity import conversation_number
from otel_evals.store.entry import Turn

if TYPE_CHECKING:
    from otel_evals.store.turns import Turns

__all__ = ["Conversing"]

_logger = logging.getLogger(__name__)
_PAUSE = 0.02
"""Seconds between two looks at conversations that are due while there is no room for their evaluations."""


class Conversing:
    """Gathers runs and hands over what has become of them.

    Args:
        config: rules and limits.
        judging: asks the rules and scores.
        accounts: where each run without a conversation is counted.
        stories: where it is remembered of each trace what waits.
        turns: keeps runs over a crash, where there is a store.
    """

    def __init__(
        self,
        config: Config,
        judging: Judging,
        accounts: Accounts,
        stories: Stories,
        turns: Turns | None = None,
    ) -> None:
        self._rules = {n: r for n, r in rule_names(config.rules).items() if r.scope == "conversation"}
        self._ceiling = max((rule.sample.ceiling for rule in self._rules.values()), default=0.0)
        self._judging = judging
        self._accounts = accounts
        self._stories = stories
        self._conversations = Conversations(
            {rule.unit: rule.idle for rule in self._rules.values()},
            keep=config.conversation_keep,
            most=config.max_conversations,
            most_bytes=config.max_conversation_bytes,
            lose=self._judge,
            forgotten=self._forget,
        )
        self._turns = turns
        if turns is not None:
            turns.back = self._take_back

    @property
    def waiting(self) -> int:
        """Conversations that have not been idle for long enough. May be called from any thread."""
        return self._conversations.waiting

    def next_look(self, now: float) -> float | None:
        """When to call `judge_due` again; None when no conversation waits."""
        due = self._conversations.next_due
        return None if due is None else max(due, now + _PAUSE)

    def take(self, runs: Sequence[Run], now: float) -> None:
        """Take runs that have closed; those of traces that the application did not sample are let go."""
        if self._rules:
            for run in runs:
                if run.trace_flags & 1:
                    try:
                        self._take(run, now)
                    except Exception as error:
                        self._fail(run, self._rules, error)

    def judge_due(self, now: float, most: int | None = None) -> bool:
        """Have conversations judged that have been idle for long enough, as many as may wait for scorers.

        Args:
            now: on the clock of `take`.
            most: no more than so many evaluations at once.

        Returns:
            Whether there were any.
        """
        room = self._judging.room if most is None else most
        due = self._conversations.due(now, max(1, room // len(self._rules)) if room and self._rules else 0)
        for conversation, unit in due:
            self._judge(conversation, unit)
        return bool(due)

    def end(self) -> None:
        """Have all conversations judged that wait, whether there is room or not, and forget them."""
        for conversation, unit in self._conversations.due(float("inf"), self.waiting * len(self._rules)):
            self._judge(conversation, unit)
        self._conversations.clear()

    def _take(self, run: Run, now: float) -> None:
        if not run.conversation_id:
            for name in self._rules:
                self._accounts.skip(name, "no_conversation_id")
                self._stories.skipped(run, name, "no_conversation_id", None)
            return
        ruled_out = not picks(self._ceiling, conversation_number(run.conversation_id))
        conversation = self._conversations.add(run, now, ruled_out=ruled_out)
        self._gathered(run, conversation)

    def _take_back(self, run: Run, turn: Turn) -> None:
        """A process has ended in which this run waited with its conversation."""
        if self._rules:
            waits = {rule.unit for name, rule in self._rules.items() if name in turn.waits}
            asked: dict[str, int] = {}
            for name, rule in self._rules.items():
                asked[rule.unit] = max(asked.get(rule.unit, 0), turn.asked.get(name, 0))
            self._gathered(run, self._conversations.restore(run, time.monotonic(), asked, waits))

    def _gathered(self, run: Run, conversation: Conversation) -> None:
        self._tell(run, conversation)
        if self._turns is not None and not conversation.ruled_out:
            place = run.trace_id, run.root_span_id
            if place in conversation.kept:
                self._turns.forget([conversation.kept.pop(place)])
            conversation.kept[place] = self._turns.keep(run, self._known(run, conversation))
        self._conversations.make_room()

    def _known(self, run: Run, conversation: Conversation) -> Turn:
        waits = self._conversations.waits(conversation_key(run))
        asked = {name: conversation.revisions.get(rule.unit, 0) for name, rule in self._rules.items()}
        return Turn(asked, tuple(name for name, rule in self._rules.items() if rule.unit in waits))

    def _tell(self, run: Run, conversation: Conversation) -> None:
        """Note on the run's trace until when it waits."""
        last = max(conversation.runs.values(), key=lambda r: (r.start_time, r.root_span_id))
        waits = self._conversations.waits(conversation_key(run))
        for name, rule in self._rules.items():
            if rule.unit not in waits:
                continue
            entry = conversation.entries.setdefault(name, Entry(name, run.root_span_id, "gathered"))
            entry.conversation_id, entry.span_id = run.conversation_id, last.root_span_id
            entry.status, entry.until = "gathered", time.time() + rule.idle
            self._stories.gathered(run, entry)

    def _judge(self, conversation: Conversation, unit: str, lost: str | None = None) -> None:
        try:
            run = as_conversation(conversation.runs.values())
        except Exception as error:
            names = [name for name, rule in self._rules.items() if rule.unit == unit]
            return self._fail(next(iter(conversation.runs.values())), names, error)
        if conversation.ruled_out:
            self._judging.rule_out(run, unit)
        else:
            self._judging.judge_conversation(run, unit, conversation.revisions[unit], lost)
        if self._turns is not None and conversation.kept:
            newest = next(reversed(conversation.kept.values()))
            self._turns.note(newest, self._known(run, conversation))
        return None

    def _fail(self, run: Run, names: Iterable[str], error: Exception) -> None:
        """A run, or the conversation it belongs to, holds what nobody foresaw: it costs nothing else."""
        _logger.error("a conversation could not be judged", exc_info=error)
        for name in names:
            self._accounts.skip(name, "unreadable")
            self._stories.skipped(run, name, "unreadable", None)

    def _forget(self, conversation: Conversation) -> None:
        if self._turns is not None:
            self._turns.forget(conversation.kept.values())
        conversation.kept.clear()
