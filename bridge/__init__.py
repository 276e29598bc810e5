"""The bridge from threads and from asyncio to the trio client: the code that both packages share.

The rules:

* All clients of a process share one trio loop, in a separate daemon thread. The loop starts with the first
  client and ends with the last client (:mod:`.loop`). Therefore a busy or blocked caller does not stop the
  pings and the ``sync`` requests that keep the session and its locks. A call costs one hop to the loop and
  one hop back. (The guest mode of trio runs trio without a thread, but needs a thread that waits for the
  network. Each call would cost two more hops, and the session would stop with the program's loop.)
* A caller is a thread, or a task of asyncio. A *worker*, a task of trio (:mod:`.workers`), does the calls of
  a caller. A caller that is in blocks (``with lock``) keeps its worker, and the worker does all calls of the
  caller inside these blocks. When trio cancels a block, the calls in the block are cancelled too. Therefore
  only the recipes decide what a loss is and which error it raises.
* A caller that makes one call after another does the calls itself, without a hop (:mod:`.direct`).
* A *wrapper* is a class for threads or for asyncio. The wrapper of a class of the client or of the recipes
  has the same methods, signatures and docstrings. :mod:`.generate` writes the source of the classes of both
  packages. The methods of the wrappers use :mod:`pyzk.blocking.wrapper` and :mod:`pyzk.aio.wrapper`.
"""
