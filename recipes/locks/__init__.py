"""Locks of all kinds, and the engine below them (the queue of contenders).

* :mod:`.lock`, :mod:`.rwlock`, :mod:`.semaphore`, :mod:`.multi_lock`, :mod:`.single_node`,
  :mod:`.time_lease`: the recipes.
* :mod:`.options`: their options. :mod:`.acquiring`: ``async with``, the same for all of them.
* :mod:`.contender`: the engine; :mod:`.role` and :mod:`.strategy`: the names of our contenders, and how they
  wait.
* :mod:`.grant`: the lock that a contender has won; :mod:`.bridge`: a hold on two znodes.
* :mod:`.local_queue`: tasks of one process that take turns.
"""
