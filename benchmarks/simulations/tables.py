"""Tables in Markdown, row by row."""

from __future__ import annotations


def table(*columns: str) -> None:
    print()
    row(*columns)
    row(*("---" for _ in columns))


def row(*values: object) -> None:
    print("| " + " | ".join(map(str, values)) + " |", flush=True)
