"""Recorded traffic, sent again as if it happened now: read, timed, given fresh ids and times, and sent."""
