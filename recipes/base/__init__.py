"""Tools that several recipes use.

* :mod:`.bound`: calls that belong to one session.
* :mod:`.creating`: creating znodes exactly once.
* :mod:`.hold`: holding something that ends with the session.
* :mod:`.running`: recipes that run for as long as a block lasts; calls that outlive a session.
* :mod:`.background`: what a cancelled task still has to finish.
* :mod:`.blocks`: ``async with`` by several tasks at once.
* :mod:`.following`: following the latest value of a znode.
* :mod:`.words`, :mod:`.warning`: the checks of options; warnings that are logged once.
"""
