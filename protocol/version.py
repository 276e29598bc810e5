"""The version of the distribution, in one place (read by pyproject.toml without importing anything)."""

__version__ = "0.1.0"
