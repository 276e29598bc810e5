"""A pretend ensemble: several servers in one process, each with its own tree, on one log (ensemble.md).

Nothing here makes data safer: all servers live and die with the process. It shows tests what clients can see
of several servers: a server that lags, a server that is cut off, a leader that is lost. It has no sockets
and no clock: callers pass the time in whole ms.

* :mod:`.ensemble`: the whole: the followers, the leader, the timers, the controls of a test.
* :mod:`.timing`: how long an election and silence take. :mod:`.host`: its servers on the network.
* :mod:`.elections`: who leads next. :mod:`.reconfig`: how the members may change.
* :mod:`.leader`: the leader's part: it prepares writes, gives zxids, and keeps the clocks of sessions.
* :mod:`.member`: a server's place in the ensemble: its role, its link to the leader, its session reports.
* :mod:`.engine`: a server's part: its tree, its watches, and the requests that wait for the log.
* :mod:`.sessions`: the sessions that a server knows, local ones too.
* :mod:`.serving`: the service and the connections of one server.
* :mod:`.log`, :mod:`.links`: the proposed and committed entries; which servers reach each other.
* :mod:`.redirects`: which sessions a test moves.
* :mod:`.status`: the view of operators. :mod:`.nemesis`: random faults.
"""
