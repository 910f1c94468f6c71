"""Imports the libraries of extras where they are needed."""

from __future__ import annotations

import importlib
from typing import Any

from otel_evals.errors import ConfigError


def extra_library(module: str, scorer_id: str, extra: str = "text") -> Any:
    """Import a module of an extra; raise ConfigError if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        problem = f"needs {error.name or module}: pip install 'otel-evals[{extra}]'"
        raise ConfigError(scorer_id, problem) from error
