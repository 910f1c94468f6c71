"""Evaluate: a job becomes an evaluation."""
