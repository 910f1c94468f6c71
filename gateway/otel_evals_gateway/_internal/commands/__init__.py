"""The commands `otel-evals gateway`, `replay` and `top`."""
