"""Finds facts in prose: numbers, dates, times, identifiers and names. Code only."""
