"""The calls that a thread or an event loop makes itself, over a direct connection.

Such a call needs no switch to the thread of the loop; see :mod:`pyzk.client.direct_connection`.

Other packages use three parts of this package. :func:`.threads.begin` and :meth:`.tasks.Reading.begin` do a
:class:`.calls.DirectCall` directly, or make the loop do the call. :func:`.threads.forget` is called when a
client was closed. The loop uses :class:`.sources.ConnectionSources` to hand over the connections and to take
them back. The rules:

* The loop hands over a connection while the loop waits for I/O. When the loop continues, it takes the
  connection back before it does anything else.
* A caller can do a call itself if the call sends one request after the other, and if the blocks around the
  call are not cancelled. While the loop waits, no block can be cancelled. When a block is cancelled, the loop
  has the connection again, and makes the next request of the call.
* A call that the loop must do comes before all later calls. No later call is direct until the loop has
  continued for this call.
* A call is *direct* as long as its caller does the call. The loop does not touch a direct call. The call is
  no longer direct when the loop continues the call's exchange, or when the caller makes the loop do the call
  (:mod:`.calls`).
* Only the loop can send a request that could not be sent at once, and handle a reply that came together with
  other bytes. The caller posts these to the loop.
* A thread waits for the reply itself (:mod:`.threads`); an event loop of asyncio watches the connection
  (:mod:`.tasks`).
"""
