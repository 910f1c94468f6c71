"""Attach: an evaluation goes onto the trace."""
