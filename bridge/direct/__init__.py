"""The calls that a thread or an event loop makes itself, over a direct connection.

Such a call needs no switch to the thread of the loop; see :mod:`pyzk.client.direct_connection`.

Other packages use three parts of this package. :func:`.threads.begin` and :meth:`.tasks.Reading.begin` do a
:class:`.calls.DirectCall`, or ask the loop. :func:`.threads.forget` is called when a client was closed. The
    loop lets :class:`.sources.ConnectionSources` hand over the connections and take them back. The rules:

* The loop hands over a connection while the loop waits for I/O. When the loop continues, it takes the
  connection back before it does anything else.
* A caller can do a call itself if the call sends one request after the other, and if the blocks around the
  call are not cancelled. While the loop waits, no block can be cancelled. When a block is cancelled, the loop
  has the connection again, and makes the next request of the call.
* A call that the loop must do precedes direct calls. Until the loop continues for this call, no other call is
  direct.
* A call is *direct* while its caller does it; then the loop does not touch it. The call stops being
  direct when the loop continues the call's exchange, or when the caller asks the loop (:mod:`.calls`).
* The caller posts to the loop what only the loop can do: a request that could not be sent, or a reply that
  came together with something else.
* A thread waits for the reply itself (:mod:`.threads`); an event loop of asyncio watches the connection
  (:mod:`.tasks`).
"""
