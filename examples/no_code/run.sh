#!/bin/sh
# Scores app.py without touching it: sh examples/no_code/run.sh
# Needs opentelemetry-distro. The spans go to the console here; leave OTEL_EVALS_TRACES_EXPORTER out for OTLP.
# What was scored stands in scores.jsonl, in the folder where it is called.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
OTEL_EVALS_CONFIG=$here/otel-evals.yaml \
OTEL_TRACES_EXPORTER=otel_evals OTEL_EVALS_TRACES_EXPORTER=console \
OTEL_METRICS_EXPORTER=none OTEL_LOGS_EXPORTER=none \
opentelemetry-instrument python "$here/app.py"
