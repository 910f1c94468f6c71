"""The wiring: intake -> assembly -> sampling -> engine -> attachment -> export, once for every way in."""

from __future__ import annotations

from otel_evals.stages.assembly_limits import assembly_limits
from otel_evals.stages.reading import read_runs
from otel_evals.stages.stages import Stages

__all__ = ["Stages", "assembly_limits", "read_runs"]
