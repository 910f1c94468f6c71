"""OTLP files and messages: JSON, JSON lines and protobuf."""
