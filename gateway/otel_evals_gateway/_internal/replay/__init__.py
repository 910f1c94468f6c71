"""Replay of recorded traffic with fresh ids and times."""
