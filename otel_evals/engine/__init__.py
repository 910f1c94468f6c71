"""Runs scorers off the request path, on one thread, within limits of concurrency, time and memory."""
