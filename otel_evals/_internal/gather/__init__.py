"""Gather: ended spans become the spans of one closed run."""
