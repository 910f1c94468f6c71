"""The implementation: conventions, the readers they share, and decorators."""
