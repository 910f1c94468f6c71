"""The one version of the distribution."""

__version__ = "0.1.0"
