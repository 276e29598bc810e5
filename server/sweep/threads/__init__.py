"""Sweeps of plain functions: unmodified kazoo clients, in threads of this process.

:mod:`.turns` has the threads act one at a time, in virtual time. :mod:`.replaced` is what they wait with.
:mod:`.driver` connects clients of kazoo to the server in memory. :mod:`.lab` is what a scenario gets.
"""
