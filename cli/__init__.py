"""The commands ``pyzk`` and ``pyzk-lock``."""
