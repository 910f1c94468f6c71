"""The receivers: OTLP over HTTP and gRPC, decoded, selected for judging, answered as OTLP says."""
