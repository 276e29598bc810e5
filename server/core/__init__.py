"""The state machine. It is synchronous and deterministic, uses no socket and no clock, and never waits.

* :mod:`.engine`: processes all requests, one after the other. :mod:`.operations`: the table of operations.
* :mod:`.tree`, :mod:`.znode`, :mod:`.txn`: the data, and the effects that change them.
* :mod:`.watches`, :mod:`.sessions`, :mod:`.acl`, :mod:`.quota`, :mod:`.reaper`: each module has the rules of
  one subject.
* :mod:`.stats`: the figures. :mod:`.failures`: bugs, and lack of memory.
"""
