"""Configuration, in code and in YAML: options, rules, and the names of scorers and destinations."""

from __future__ import annotations

from otel_evals.config.gateway import GatewayOptions
from otel_evals.config.loading import build_config, load_config
from otel_evals.config.options import Config
from otel_evals.config.rules import Rule
from otel_evals.config.typed import ConfigOptions

__all__ = ["Config", "ConfigOptions", "GatewayOptions", "Rule", "build_config", "load_config"]
