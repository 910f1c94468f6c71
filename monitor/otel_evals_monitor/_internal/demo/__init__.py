"""The demo of `otel-evals demo`: a support agent's live traffic, scored while it runs."""
