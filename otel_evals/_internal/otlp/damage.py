"""The error of a file that is OTLP up to a damaged part."""

from __future__ import annotations

from otel_evals.errors import ConfigError


class DamagedFileError(ConfigError):
    """A part of a file cannot be read, such as the end of one whose writer was killed."""
