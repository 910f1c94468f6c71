"""Memory of the spans of closed runs, to recognise late and repeated spans."""

from __future__ import annotations


class ClosedSpans:
    """Remembers up to `most` span ids, each for `seconds` to twice that time; an id takes about 100 bytes.

    Two generations take turns: when the newer one is full or old, it replaces the older one. Span ids are
    unique within their trace only, and senders choose them: the keys are this process's hash of both ids.
    """

    def __init__(self, seconds: float, most: int) -> None:
        self._seconds = seconds
        self._most = most // 2
        self._newer: dict[int, bool] = {}
        self._older: dict[int, bool] = {}
        self._since = 0.0
        self.forgotten = 0
        """Spans that were forgotten early, for lack of room."""

    def __len__(self) -> int:
        return len(self._newer) + len(self._older)

    def get(self, trace_id: str, span_id: str) -> bool | None:
        """Return True for a span that arrived, False for a missing parent, None for an unknown span."""
        key = hash((trace_id, span_id))
        found = self._newer.get(key)
        return self._older.get(key) if found is None else found

    def add(self, trace_id: str, span_id: str, arrived: bool, now: float) -> None:
        """Remember a span from `now` on."""
        if now - self._since >= self._seconds or len(self._newer) >= self._most:
            if now - self._since < self._seconds:
                self.forgotten += len(self._older)
            self._newer, self._older, self._since = {}, self._newer, now
        self._newer[hash((trace_id, span_id))] = arrived
