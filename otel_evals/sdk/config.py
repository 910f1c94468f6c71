"""Sections of the configuration: build a model whose errors name the field and the fix.

Register the model under the entry-point group `otel_evals_config_section`; the name of the entry point is the
name of the section.
"""

from otel_evals._internal.config.loader import start_watches
from otel_evals._internal.config.plugins import SCORERS
from otel_evals._internal.config.validation import MODEL, PositiveSeconds, raises_config_errors, seconds
from otel_evals._internal.config.yaml_file import YamlFile
from otel_evals._internal.util.options import Problems, suggestion

__all__ = [
    "MODEL",
    "SCORERS",
    "PositiveSeconds",
    "Problems",
    "YamlFile",
    "raises_config_errors",
    "seconds",
    "start_watches",
    "suggestion",
]
