"""The state machine: synchronous and deterministic. It touches no socket and no clock, and never waits.

* :mod:`.engine`: all requests, in one order. :mod:`.operations`: the table of operations.
* :mod:`.tree`, :mod:`.znode`, :mod:`.txn`: the data, and the effects that change them.
* :mod:`.watches`, :mod:`.sessions`, :mod:`.acl`, :mod:`.quota`, :mod:`.reaper`: one rule book each.
* :mod:`.stats`: the figures. :mod:`.failures`: bugs, and lack of memory.
"""
