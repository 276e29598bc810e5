"""The bridge from threads and from asyncio to the trio client: what both faces share.

The rules:

* All clients of a process share one trio loop, in a daemon thread of its own. It starts with the first client
  and ends with the last one (:mod:`.loop`). So a caller that is busy or blocked does not stop the pings and
  the ``sync`` that keep its session and its locks; and a call pays for one hop to the loop and one back.
  (trio's guest mode would need no thread to run trio, but one to wait for the network: two hops more for each
  call, and a session that stands still with the program's loop.)
* A caller is a thread, or a task of asyncio. What a caller asks is done by an *agent*, a task of trio
  (:mod:`.agent`). A caller that is in blocks (``with lock``) keeps its agent, and everything that it asks is
  done inside these blocks: when trio cancels one of them, the calls in it are cancelled too. So the recipes
  decide what a loss is and which error it raises, and nothing of that is said again here.
* A caller that makes one call after another does them itself, and then pays for no hop (:mod:`.direct`).
* A face is a class for threads or for asyncio with the methods, signatures and docstrings of a class of the
  client or of the recipes. The classes of both packages are source that :mod:`.generate` has written; their
  methods hand over to :mod:`pyzk.blocking.face` and :mod:`pyzk.aio.face`.
"""
