"""The libraries of the `text` extra, imported where they are used."""

from __future__ import annotations

import importlib
from typing import Any

from otel_evals.errors import ConfigError


def text_library(module: str, scorer_id: str) -> Any:
    """Import a library of the `text` extra on behalf of a scorer.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(scorer_id, f"needs {module}: pip install 'otel-evals[text]'") from error
