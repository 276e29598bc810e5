"""How long others wait while one client, or one operator, does its worst: ``python -m benchmarks.stalls``."""
