"""Connections and sockets, which carry bytes between clients and the engine.

These modules do no I/O:

* :mod:`.service`: the engine and its connections.
* :mod:`.connection`, :mod:`.requests`, :mod:`.connection_stats`: the bytes, the requests and the figures of
  one connection.
* :mod:`.gate`: the hook for tests.

The other modules:

* :mod:`.hub`: plain sockets. :mod:`.streams`, :mod:`.listening`: a task for each client, for TLS and HTTP.
* :mod:`.http`: HTTP for the admin server.
* :mod:`.clock`: the time.
* :mod:`.unread`, :mod:`.descriptors`: limits.
"""
