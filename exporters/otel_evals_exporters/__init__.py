"""Destinations for backends, one module each, found through entry points."""
