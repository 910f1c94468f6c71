"""Offline evaluation: the same scorers on data sets, in tests and on stored traces."""
