"""What all tests here use."""

from .sweeping import program, sweep

__all__ = ["program", "sweep"]
