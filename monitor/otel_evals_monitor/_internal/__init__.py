"""The implementation of the monitor."""
