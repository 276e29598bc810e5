"""Sweeps of plain functions whose clients are threads of this process.

The clients are clients of kazoo, clients of :mod:`pyzk.blocking`, or clients in event loops in threads.
:mod:`.turns` lets one thread act at a time, in virtual time. :mod:`.waits` and :mod:`.sockets` replace the
functions with which threads wait.
:mod:`.driver` connects the threads to the server in memory. A scenario gets a :class:`.lab.ThreadLab`.
"""
