"""Gather: ended spans become the spans of a closed run."""
