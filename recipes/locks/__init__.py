"""Locks of all kinds, and their engine, which is the queue of contenders.

* :mod:`.lock`, :mod:`.rwlock`, :mod:`.semaphore`, :mod:`.multi_lock`, :mod:`.single_node`,
  :mod:`.time_lease`: the recipes.
* :mod:`.options`: the options of the recipes. :mod:`.acquiring`: ``async with`` for all of them.
* :mod:`.contender`: the engine. :mod:`.role`: the names of this package's contenders. :mod:`.strategy`: the
  ways to wait.
* :mod:`.grant`: the lock that a contender has won. :mod:`.dual_layout`: an ownership on two znodes.
* :mod:`.local_queue`: tasks of one process that take turns.
"""
