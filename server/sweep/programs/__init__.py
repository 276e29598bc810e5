"""Sweeps of programs in any language: the command ``pyzk-sweep``.

The server listens on loopback, at one address for each client of the programs. The clocks of the programs are
real clocks, so the timeouts of the programs take real time.
"""
