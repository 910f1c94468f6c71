"""The implementation of the gateway."""
