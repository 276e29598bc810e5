"""Tools that several recipes use.

* :mod:`.bound`: calls that belong to one session.
* :mod:`.creating`: creating znodes exactly once.
* :mod:`.hold`: holding a znode that ends with the session, such as a lock.
* :mod:`.running`: recipes that run for as long as a block lasts; calls that outlive a session.
* :mod:`.background`: work that continues when its caller is cancelled.
* :mod:`.blocks`: ``async with`` by several tasks at once; :mod:`.holder`: who holds.
* :mod:`.following`: following the latest value of a znode.
* :mod:`.waiting`: who is waited for, in the log and in errors.
* :mod:`.words`, :mod:`.warning`: the checks of options; warnings that are logged once.
"""
