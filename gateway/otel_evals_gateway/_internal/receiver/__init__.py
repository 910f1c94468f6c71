"""The receivers: OTLP over HTTP and gRPC, decoded, selected for scoring, answered as OTLP specifies."""
