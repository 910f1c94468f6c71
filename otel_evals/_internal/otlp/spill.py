"""Groups records in memory, and in temporary files once they exceed it."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import IO, Any

_BUCKETS = 256


class Spill:
    """Groups records by key; a context manager that closes its temporary files.

    Args:
        memory: bytes of records to keep before all are written to temporary files by key.
    """

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._held: dict[str, list[Any]] = {}
        self._size = 0
        self._files: list[IO[bytes]] = []
        self._open = ExitStack()

    def __enter__(self) -> Spill:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def add(self, key: str, record: Any, size: int) -> None:
        self._held.setdefault(key, []).append(record)
        self._size += size
        if self._size > self._memory:
            self._write_out()

    def groups(self) -> Iterator[list[Any]]:
        """Yield the records of each key once, after all were added."""
        if not self._files:
            yield from self._held.values()
            return
        self._write_out()
        for file in self._files:
            yield from self._read_back(file)

    def _write_out(self) -> None:
        if not self._files:
            self._files = [self._open.enter_context(tempfile.TemporaryFile()) for _ in range(_BUCKETS)]  # noqa: SIM115 - the stack closes them
        for key, records in self._held.items():
            pickle.dump((key, records), self._files[hash(key) % _BUCKETS], pickle.HIGHEST_PROTOCOL)
        self._held, self._size = {}, 0

    def _read_back(self, file: IO[bytes]) -> Iterator[list[Any]]:
        file.seek(0)
        groups: dict[str, list[Any]] = {}
        while True:
            try:
                key, records = pickle.load(file)
            except EOFError:
                break
            groups.setdefault(key, []).extend(records)
        yield from groups.values()
