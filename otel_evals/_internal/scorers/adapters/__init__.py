"""Evaluators of other libraries as scorers."""
