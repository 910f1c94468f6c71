"""The commands `otel-evals gateway` and `top`."""
