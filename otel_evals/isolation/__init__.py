"""Scorers, or the whole engine, in processes of their own. Nothing is ever forked."""

from __future__ import annotations

__all__: list[str] = []
