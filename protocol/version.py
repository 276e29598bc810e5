"""The version of the distribution. pyproject.toml reads the version from this file without an import."""

__version__ = "0.1.0"
