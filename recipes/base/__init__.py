"""Tools that several recipes use.

* :mod:`.bound`: calls that belong to one session.
* :mod:`.creating`: creating znodes exactly once.
* :mod:`.ownership`: holding a znode that ends with the session, such as a lock.
* :mod:`.running`: recipes that run until the end of a block, and calls that outlive a session.
* :mod:`.background`: work that continues when its caller is cancelled.
* :mod:`.blocks`: ``async with`` in several tasks at the same time. :mod:`.holder`: the task or thread that
  holds a lock.
* :mod:`.following`: following the latest value of a znode.
* :mod:`.waiting`: the words in the log and in errors about a wait for a lock.
* :mod:`.choices`: the checks of options. :mod:`.warning`: warnings that are logged once.
"""
