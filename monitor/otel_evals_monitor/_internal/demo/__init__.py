"""The demo: a support agent's live traffic, scored while it runs. Started by `otel-evals demo`."""
