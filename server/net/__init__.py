"""Connections and sockets: they carry bytes between clients and the engine.

* :mod:`.service`: the engine and its connections. :mod:`.connection`, :mod:`.requests`,
  :mod:`.connection_stats`: one connection: its bytes, its requests, its counts and latencies. :mod:`.gate`:
  the hook of tests. None of them does I/O.
* :mod:`.hub`: plain sockets. :mod:`.streams`, :mod:`.listening`: a task for each client, for TLS and HTTP.
* :mod:`.http`: HTTP for the admin server. :mod:`.clock`: the time. :mod:`.unread`, :mod:`.descriptors`:
  limits.
"""
