"""`otel_evals.doctor()`: examines this process and its surroundings, and reports problems with their fix."""
