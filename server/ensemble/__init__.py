"""A pretend ensemble: several servers in one process, each with its own tree, on one log (ensemble.md).

Nothing here makes data safer: all servers live and die with the process. It shows tests what clients can see
of several servers: one that lags, one that is cut off, a leader that is lost. No sockets, and no clock:
callers pass the time in, in whole ms.

* :mod:`.ensemble`: the whole: who follows, who leads, what falls due, what a test does to it.
* :mod:`.timing`: how long an election and silence take. :mod:`.host`: its servers on the network.
* :mod:`.elections`: who leads next. :mod:`.reconfig`: how the members may change.
* :mod:`.leader`: the leader's part: it prepares writes, gives zxids, and keeps the clocks of sessions.
* :mod:`.member`: a server's place in the ensemble: its role, its link to the leader, its session reports.
* :mod:`.engine`: a server's part: its tree, its watches, and the requests that wait for the log.
* :mod:`.sessions`: the sessions that a server knows, local ones too.
* :mod:`.serving`: the service and the connections of one server.
* :mod:`.log`, :mod:`.links`: what was proposed and committed; who reaches whom.
* :mod:`.redirects`: which sessions a test moves.
* :mod:`.status`: what operators see. :mod:`.nemesis`: faults by chance.
"""
