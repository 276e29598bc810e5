"""Sweeps of programs in any language: the command ``pyzk-sweep``.

The server listens for them on loopback, at one address for each client. Their clocks run, so a timeout of
theirs takes real time.
"""
