"""The rules that no run of an ensemble breaks (ensemble.md section 15.2), held against what happens in it.

* :mod:`.recording`: writes down what happens in any ensemble, as :mod:`.facts`.
* :mod:`.log`: the log, and what the servers apply of it: rules 1 to 3, 8, 13 to 15.
* :mod:`.clients`: what each connection is told: rules 4 to 10.
* :mod:`.sessions`: when sessions end, and what clients hear of it: rules 11, 12 and 16.
* :mod:`.checker`: takes the facts in their order.

Rule 17 compares two servers: ``tests/server/ensemble/test_equal.py``.
"""
