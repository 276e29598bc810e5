"""Calls that a thread or an event loop makes itself, over a connection on loan (:mod:`pyzk.client.loan`).
They cost no switch to the thread of the loop.

Others use three things of this room. :func:`.threads.begin` and :meth:`.tasks.Reading.begin` do a
:class:`.calls.DirectCall`, or ask the loop. :func:`.threads.forget` is called when a client was closed. The
loop has :class:`.lending.Lenders` lend and take back. The rules:

* The loop lends while it waits for I/O, and takes back when it goes on, before it does anything else.
* A caller may do a call itself if the call sends one request after the other, and the blocks around it are
  not cancelled. That is known while the loop waits; when it changes, the loop has the connection again, and
  the call is brought to the loop with its next request.
* A call that the loop was asked for comes first: until the loop goes on for it, no other call borrows.
* A call is *borrowed* while its caller does it: then the loop leaves it alone. That ends when the loop goes
  on with its exchange, or when the caller asks the loop (:mod:`.calls`).
* What the loop has to do is posted to it: a request that could not be sent any more, or a reply that came
  with something else.
* A thread waits for the reply itself (:mod:`.threads`); an event loop of asyncio watches the connection
  (:mod:`.tasks`).
"""
