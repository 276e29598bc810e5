"""A pretend ensemble: several servers in one process. Each server has its own tree, and all servers share one
log (ensemble.md).

A pretend ensemble does not make data safer, because all its servers end with the process. It shows tests what
clients can see of several servers: a server that lags, a server that is cut off, a leader that is lost. This
package uses no sockets and no clock, except :mod:`.host`. Callers pass the time in whole ms.

* :mod:`.ensemble`: the whole ensemble: its servers, its timers, and the controls of a test.
* :mod:`.timing`: the times of an election and of silence. :mod:`.host`: the servers on the network.
* :mod:`.elections`: chooses the next leader. :mod:`.reconfig`: the allowed changes of the members.
* :mod:`.leader`: the part of the leader: it prepares writes, gives zxids, and keeps the clocks of sessions.
* :mod:`.member`: the place of a server in the ensemble: its role, its link to the leader, its reports.
* :mod:`.engine`: the engine of a server: its tree, its watches, and the requests that wait for the log.
* :mod:`.sessions`: the sessions that a server knows, with its local sessions.
* :mod:`.serving`: the service and the connections of one server.
* :mod:`.log`: the proposed and committed entries. :mod:`.links`: the links between servers.
* :mod:`.redirects`: the sessions that a test moves to another server.
* :mod:`.status`: the view for operators. :mod:`.nemesis`: random faults.
"""
