"""The engine in a process of its own: `configure(isolation="process")`."""

from otel_evals.hosted.pipeline import HostedPipeline

__all__ = ["HostedPipeline"]
