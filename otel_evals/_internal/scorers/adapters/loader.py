"""What the adapters share: finding what is given by name, and naming what is missing."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from otel_evals.errors import ConfigError


def library(module: str, extra: str, scorer: str) -> ModuleType:
    """Import a module of an extra.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        problem = f"needs {error.name or module}: pip install 'otel-evals[{extra}]'"
        raise ConfigError(scorer, problem) from error


def built(value: Any, options: Mapping[str, Any] | None, field: str) -> Any:
    """An object as it is, or one made of a class given as `package.module:name`, with these options.

    Raises:
        ConfigError: it cannot be imported, refuses the options, or is an object already and has options.
    """
    if not isinstance(value, str):
        if options:
            raise ConfigError(f"{field}.options", "only go with a class that is given by name")
        return value
    module, _, name = value.partition(":")
    try:
        return getattr(importlib.import_module(module), name)(**(options or {}))
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ConfigError(field, f"{value!r} cannot be made: {error}") from error
