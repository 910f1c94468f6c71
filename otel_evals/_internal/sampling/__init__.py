"""Samplers, their algebra, and the decision which rules sample a run."""
