"""Capture: an ended span becomes an item."""
