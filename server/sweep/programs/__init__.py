"""Sweeps of programs in any language: the command ``pyzk-sweep``.

The server listens on loopback, at one address for each client of the programs. The programs' clocks run, so
their timeouts take real time.
"""
