"""Sweeps of plain functions, whose clients are threads of this process: of kazoo, of :mod:`pyzk.blocking`, of
event loops in threads.

:mod:`.turns` has the threads act one at a time, in virtual time. :mod:`.waits` and :mod:`.sockets` replace
what they wait with. :mod:`.driver` connects them to the server in memory. A scenario gets a :mod:`.lab`.
"""
