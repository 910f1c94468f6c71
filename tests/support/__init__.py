"""Helpers of the tests, one module per kind of thing, imported by full name: `tests.support.traffic`.

Agent traffic and records
    agents              runs of agents as spans
    traffic             `Live`: a configured pipeline to send them through
    fixed_traffic       traffic whose times, tokens and cost are always the same
    sampled_traffic     traffic with a known mean under a sampler that looks at runs
    handwritten         an agent made with the decorators, and what became of its spans
    trace_builder       spans with attributes, and what conventions read from them
    runs                runs made by hand, for scorers
    scored              scored runs, for destinations
    scored_files        scores the runs of OTLP files, as `otel-evals score` does
    result_records      records as the JSONL destination writes them, for the results store
    replacing           a record with other values, struct or dataclass
    facts               what a trace is known to mean, and how much of it is recovered

The product under test
    wired               the steps of one process, wired by hand on the caller's event loop
    gateway_process     a gateway in a process of its own
    gateways            a gateway in a thread
    destinations        every destination that sends something, pointed at a recording server
    public_api          the public API as text; writes the snapshot
    auto_judge          a judge that answers every question in its form
    waits               how long tests wait for something, and the wait itself
    pauses              how long something keeps the interpreter's lock

Programs in processes of their own; they get the environment variable PYTHONPATH from here
    exporting_programs  a program that exports by OTLP to a receiver of the test
    service             a web service whose every request is one agent run
    service_judge       the same service, traced as a server that takes part in its callers' traces
    service_tasks       the same service as a Celery worker
    adopted_app         an application as the sections about other SDKs have it
    setups              applications in the set-ups of docs/compatibility.md
    setup_runs          runs of these two, and what they sent
    kill_matrix         kills Kafka workers and their broker, and counts what that cost

Servers on loopback that stand in for real ones
    recording_server    HTTP: records what it is sent, answers as it is told
    otlp_receiver       OTLP over HTTP: keeps spans, log records and metrics
    grpc_otlp           OTLP over gRPC into an `OtlpReceiver`
    stub_openai         an OpenAI-compatible server that answers by script
    azure_ingestion     Azure Monitor's ingestion endpoint
    certificates        certificates for these servers

Real servers on loopback, for interop tests
    servers             starts and stops them; free ports; a clean environment
    components          Collectors, a Jaeger and a Kafka broker around the gateway
    jaeger_server       Jaeger
    loki_server         Loki
    mlflow_server       MLflow
    phoenix_server      Phoenix
    phoenix_page        Phoenix's page of a trace, in a browser
    postgres_server     PostgreSQL
    prometheus_server   Prometheus, with the shipped rules
    redis_server        Redis or Valkey
    zipkin_server       Zipkin
    browser             a headless browser
"""

from __future__ import annotations

from pathlib import Path

PYTHONPATH = str(Path(__file__).parents[2])
"""The repository's root, for programs in processes of their own that import `tests.support`."""
