"""The advisor: rules that find in the history what clients do wrong, and say how to do it right.

* It is pure: entries of the history go in, findings come out. It knows no server, no clock and no socket.
* It is incremental: each entry is looked at once. Its memory is bounded (:class:`.table.Table`).
* :mod:`.engine` makes exchanges out of entries. :mod:`.world` knows the ephemerals and watches of each
  session. The rules get each exchange, event and end. A rule changes nothing except its own memory.
* A rule reports what it has seen happen, not what might happen.

docs/advisor.md has all rules with their remedies.
"""
