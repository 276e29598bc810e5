"""Locks of all kinds, and the engine below them.

* :mod:`.lock`, :mod:`.rwlock`, :mod:`.semaphore`, :mod:`.multi_lock`, :mod:`.single_node`,
  :mod:`.time_lease`: the recipes.
* :mod:`.options`: their options. :mod:`.acquiring`: what ``async with`` does with each of them.
* :mod:`.contender`: the engine; :mod:`.role` and :mod:`.strategy` say how one of ours is named and how it
  waits.
* :mod:`.grant`: what a contender has won; :mod:`.bridge`: a hold on two znodes.
* :mod:`.local_queue`: tasks of one process that take turns.
"""
