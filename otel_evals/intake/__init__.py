"""The ways in: the SDK's processors, and OTLP files."""
