"""Configuration, in code and in YAML: options, rules, and the names of scorers and destinations."""

from __future__ import annotations

from otel_evals.config.gateway import GatewayOptions
from otel_evals.config.loading import build_config, load_config
from otel_evals.config.options import Config
from otel_evals.config.rules import Rule

__all__ = ["Config", "GatewayOptions", "Rule", "build_config", "load_config"]
