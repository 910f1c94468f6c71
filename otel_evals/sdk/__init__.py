"""The parts of the library that a service is built from, such as the gateway and the monitor.

Applications do not need this package. Names in it may change in any minor release.
"""

from otel_evals._internal.util.inside import Inside

__all__ = ["Inside"]
