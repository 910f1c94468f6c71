"""The gateway: receives OTLP over HTTP, gRPC and Kafka, and scores it with the same pipeline.

Run it with `otel-evals gateway --config otel-evals.yaml`; its options are the section `gateway` of the file.
"""

from otel_evals_gateway._internal.options import GatewayOptions, KafkaOptions, KafkaTopics, TlsOptions

__all__ = ["GatewayOptions", "KafkaOptions", "KafkaTopics", "TlsOptions"]
