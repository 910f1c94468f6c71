"""Accounting: counters, trace log, health and explanations of single traces."""
