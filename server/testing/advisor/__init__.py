"""The advisor: rules that find in the history what clients do wrong, and say how to do it right.

* The advisor is pure: it takes entries of the history and returns findings. The advisor uses no server, clock
  or socket.
* The advisor is incremental: it reads each entry once. The memory of the advisor is bounded
  (:class:`.table.Table`).
* :mod:`.engine` makes exchanges out of entries. :mod:`.world` keeps the ephemerals and watches of each
  session. The rules get each exchange, each event, and the end of each session. A rule changes only its own
  memory.
* A rule reports only what has happened, not what might happen.

docs/advisor.md has all rules with their remedies.
"""
