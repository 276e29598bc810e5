"""The version of the distribution. pyproject.toml reads it from here without an import."""

__version__ = "0.1.0"
