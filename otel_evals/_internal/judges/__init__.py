"""Judges: their interface, LiteLLM, limits, budgets and caches."""
