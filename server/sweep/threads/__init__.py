"""Sweeps of plain functions: unmodified kazoo clients, in threads of this process, over sockets.

:mod:`.quiet` sees when every thread waits. :mod:`.virtual` makes sleeps and timed waits take no time.
:mod:`.stage` knows clients by their sessions. :mod:`.run` makes one run.
"""
