"""Tests; helpers are in `tests.support` and imported by their full name."""
