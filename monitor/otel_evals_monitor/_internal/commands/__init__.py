"""The commands `otel-evals monitor`, `report`, `results`, `labels` and `export`."""
